package mockserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

// Each version of Lightning takes other forms of an output, and dies of others.
func TestFormsOfOutputs(t *testing.T) {
	const (
		ok      = "ok"
		invalid = `error {"output_dataclip":["is invalid"]}`
		crash   = "crash"
	)
	for _, tt := range []struct {
		output                 string
		either, objects, texts string
	}{
		{`"{\"a\":1}"`, ok, invalid, ok},
		{`{"a":1}`, ok, ok, invalid},
		{`{}`, ok, ok, invalid},
		{`"42"`, ok, invalid, ok},
		{`42`, ok, invalid, invalid},
		{`[1]`, ok, invalid, invalid},
		{`"abc-123"`, crash, invalid, crash}, // a bare text that is sent natively (lightning#5098)
		{`"{"`, crash, invalid, crash},
		{`{"a":"\u0000"}`, crash, crash, crash},
	} {
		for form, want := range map[mockserver.Dataclips]string{
			mockserver.EitherDataclips: tt.either, mockserver.ObjectDataclips: tt.objects, mockserver.TextDataclips: tt.texts,
		} {
			t.Run(form.String()+" "+tt.output, func(t *testing.T) {
				m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, Dataclips: form})
				c, id := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1")})
				c.OK("run:"+id, "step:start", `{"step_id":"`+step1+`","job_id":"j1"}`)
				got := c.Exchange("run:"+id, "step:complete", `{"step_id":"`+step1+`","reason":"success","output_dataclip":`+tt.output+`,"output_dataclip_id":"`+clip1+`"}`)
				switch want {
				case crash:
					require.Equal(t, frame.Error, got.Event)
				case ok:
					require.Equal(t, ok, got.Status)
				default:
					require.Equal(t, want, got.Status+" "+text(got.Payload))
				}
			})
		}
	}
}
