package mockserver_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

const (
	step1  = "a260782d-7cd1-44e4-ad3b-b4c24bac6fc2"
	step2  = "0f342527-c67c-4de7-9770-9078b9b8cbb1"
	clip1  = "0483b9df-781d-428b-a653-4dc173988218"
	clip2  = "c552145d-c6a7-4690-bb5f-6ba6d3f38619"
	stamp  = `"timestamp":"1795168192891559"`
	began  = `step:start {"step_id":"` + step1 + `","job_id":"j1"}`
	output = `step:complete {"step_id":"` + step1 + `","job_id":"j1","reason":"success","error_type":null,"error_message":null,` +
		`"output_dataclip":"{\"x\":1}","output_dataclip_id":"` + clip1 + `"}`
	done = `run:complete {"reason":"success","error_type":null,"error_message":null}`
)

// TestRunTopic tells what Lightning answers to each event. The answer is the
// status and the response, or crash.
func TestRunTopic(t *testing.T) {
	line := func(fields string) string { return `run:log {"message":["hi"],` + stamp + fields + `}` }
	const crash = "crash"
	const blank = "This field can't be blank."
	tests := []struct {
		name   string
		before []string // accepted pushes
		push   string
		want   string
	}{
		{name: "plan", push: `fetch:plan {}`, want: `ok ` + string(mocktest.Plan("r1"))},
		{name: "no dataclip", push: `fetch:dataclip {"id":"x"}`, want: `ok null`},
		{name: "credential", push: `fetch:credential {"id":"c1"}`, want: `ok {"user":"u"}`},
		{name: "null credential", push: `fetch:credential {"id":"c0"}`, want: `ok null`},
		{name: "unknown credential", push: `fetch:credential {"id":"nope"}`, want: `error {"errors":{"id":["Credential not found!"]}}`},
		{name: "credential without id", push: `fetch:credential {}`, want: `error {"errors":{"id":["` + blank + `"]}}`},

		{name: "run:start", push: `run:start {` + stamp + `,"versions":{"worker":"1"}}`, want: `ok null`},
		{name: "run:start without anything", push: `run:start {}`, want: `ok null`},
		{name: "run:start again", before: []string{`run:start {}`}, push: `run:start {}`, want: `ok null`},
		{name: "run:start after the end", before: []string{done}, push: `run:start {}`, want: `error {"state":["already in completed state"]}`},
		{name: "bad timestamp", push: `run:start {"timestamp":"soon"}`, want: `error {"timestamp":["is invalid"]}`},

		{name: "step:start", push: began, want: `ok {"step_id":"` + step1 + `"}`},
		{name: "step:start again", before: []string{began}, push: began, want: `error {"id":["has already been taken"]}`},
		{name: "step of no job", push: `step:start {"step_id":"` + step1 + `","job_id":"nope"}`, want: `error {"job_id":["does not exist"]}`},
		{name: "step without ids", push: `step:start {}`, want: `error {"job_id":["` + blank + `"],"step_id":["` + blank + `"]}`},
		{name: "step_id is no UUID", push: `step:start {"step_id":"s1","job_id":"j1"}`, want: `error {"step_id":["is invalid"]}`},
		{
			name: "input unknown", push: `step:start {"step_id":"` + step1 + `","job_id":"j1","input_dataclip_id":"` + clip1 + `"}`,
			want: `error {"input_dataclip_id":["does not exist"]}`,
		},
		{
			name: "input is an output", before: []string{began, output},
			push: `step:start {"step_id":"` + step2 + `","job_id":"j1","input_dataclip_id":"` + clip1 + `"}`, want: `ok {"step_id":"` + step2 + `"}`,
		},
		{
			name: "input is an output that was refused", before: []string{began},
			push: `step:start {"step_id":"` + step2 + `","job_id":"j1","input_dataclip_id":"` + clip2 + `"}`, want: `error {"input_dataclip_id":["does not exist"]}`,
		},

		{name: "step:complete", before: []string{began}, push: output, want: `ok {"step_id":"` + step1 + `"}`},
		{name: "step:complete again", before: []string{began, output}, push: output, want: `error {"id":["has already been taken"]}`},
		{name: "step:complete of no step", push: output, want: `error {"step_id":["not found"]}`},
		{
			name: "output without id", before: []string{began}, push: `step:complete {"step_id":"` + step1 + `","reason":"success","output_dataclip":"{}"}`,
			want: `error {"output_dataclip_id":["` + blank + `"]}`,
		},
		{
			name: "id without output", before: []string{began}, push: `step:complete {"step_id":"` + step1 + `","reason":"success","output_dataclip_id":"` + clip1 + `"}`,
			want: `error {"output_dataclip":["` + blank + `"]}`,
		},
		{
			name: "output too large", before: []string{began}, push: `step:complete {"step_id":"` + step1 + `","reason":"success","output_dataclip_error":"DATACLIP_TOO_LARGE"}`,
			want: `ok {"step_id":"` + step1 + `"}`,
		},
		{
			name: "output is no JSON", before: []string{began}, push: `step:complete {"step_id":"` + step1 + `","reason":"success","output_dataclip":"{","output_dataclip_id":"` + clip1 + `"}`,
			want: crash,
		},
		{name: "no reason", before: []string{began}, push: `step:complete {"step_id":"` + step1 + `"}`, want: `error {"reason":["` + blank + `"]}`},

		{name: "log without message", push: `run:log {` + stamp + `}`, want: `error {"message":["` + blank + `"]}`},
		{name: "log of null", push: `run:log {"message":null,` + stamp + `}`, want: `error {"message":["` + blank + `"]}`},
		{name: "log without timestamp", push: `run:log {"message":["hi"]}`, want: `error {"timestamp":["` + blank + `"]}`},
		{name: "log level", push: line(`,"level":"fatal"`), want: `error {"level":["is invalid"]}`},
		{name: "log source", push: line(`,"source":"ninechars"`), want: `error {"source":["should be at most 8 character(s)"]}`},
		{name: "log of no step", push: line(`,"step_id":"` + step2 + `"`), want: `error {"step_id":["must be associated with the run"]}`},
		{
			name: "batch", before: []string{began},
			push: `run:batch_logs {"run_id":"r1","logs":[{"message":["a"],` + stamp + `,"level":"success"},{"message":"b",` + stamp + `,"step_id":"` + step1 + `"}]}`, want: `ok null`,
		},
		{name: "empty batch", push: `run:batch_logs {"logs":[]}`, want: `ok null`},
		{
			name: "one bad line in a batch", push: `run:batch_logs {"logs":[{"message":["a"],` + stamp + `},{` + stamp + `}]}`,
			want: `error {"message":["` + blank + `"]}`,
		},

		{name: "run:complete", push: done, want: `ok null`},
		{name: "run:complete again", before: []string{done}, push: `run:complete {"reason":"fail"}`, want: `error {"state":["already in completed state"]}`},
		{name: "no reason to end", push: `run:complete {}`, want: `error {"state":["` + blank + `"]}`},
		{name: "unknown reason", push: `run:complete {"reason":"bored"}`, want: `error {"state":["is invalid"]}`},
		{name: "final state", push: `run:complete {"reason":"success","final_state":{"a":1}}`, want: `ok null`},
		// OpenFn/lightning#4627
		{name: "final state is no object", push: `run:complete {"reason":"success","final_state":42}`, want: `error {"errors":{"final_state":["is invalid"]}}`},
		{
			name: "final state is moot", before: []string{began, output},
			push: `run:complete {"reason":"success","final_state":42,"final_dataclip_id":"` + clip1 + `"}`, want: `ok null`,
		},
		{
			name: "final dataclip unknown", push: `run:complete {"reason":"success","final_dataclip_id":"` + clip1 + `"}`,
			want: `error {"errors":{"final_dataclip_id":["does not exist"]}}`,
		},

		{name: "unknown event", push: `run:cancel {}`, want: crash},
		{name: "payload is no object", push: `step:start []`, want: crash},
		{name: "batch without logs", push: `run:batch_logs {}`, want: crash},
		// PostgreSQL stores no U+0000.
		{name: "U+0000 in a line", push: `run:log {"message":[{"k":"a\u0000"}],"timestamp":"1"}`, want: crash},
		{name: "U+0000 in a key", push: `run:log {"message":[{"\u0000":1}],"timestamp":"1"}`, want: crash},
		{name: "U+0000 in an error", push: `run:complete {"reason":"fail","error_message":"\u0000"}`, want: crash},
		{
			name: "U+0000 in an output", before: []string{began}, push: `step:complete {"step_id":"` + step1 + `","reason":"success","output_dataclip":"{\"a\":\"\\u0000\"}","output_dataclip_id":"` + clip1 + `"}`,
			want: crash,
		},
		{
			name: "a backslash before u0000", before: []string{began}, push: `step:complete {"step_id":"` + step1 + `","reason":"success","output_dataclip":"{\"a\":\"\\\\u0000\"}","output_dataclip_id":"` + clip1 + `"}`,
			want: `ok {"step_id":"` + step1 + `"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
			m.AddCredential("c1", json.RawMessage(`{"user":"u"}`))
			m.AddCredential("c0", json.RawMessage(`null`))
			c, id := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1")})
			for _, push := range tt.before {
				event, payload, _ := strings.Cut(push, " ")
				c.OK("run:"+id, event, payload)
			}
			event, payload, _ := strings.Cut(tt.push, " ")
			got := c.Exchange("run:"+id, event, payload)
			if tt.want == crash {
				require.Equal(t, frame.Error, got.Event)
				require.Equal(t, c.Joins["run:r1"], got.Ref)
				require.Equal(t, c.Joins["run:r1"], got.JoinRef)
			} else {
				require.Equal(t, tt.want, got.Status+" "+text(got.Payload))
			}

			record, _ := m.Inspect("r1")
			last := record.Events[len(record.Events)-1]
			require.Equal(t, event, last.Event)
			require.Equal(t, payload, string(last.Payload))
			status, _, _ := strings.Cut(tt.want, " ")
			require.Equal(t, status, last.Status)
		})
	}
}

// text is a response as JSON: none at all is null.
func text(payload []byte) string {
	if payload == nil {
		return "null"
	}
	return string(payload)
}

func TestReasonsBecomeStates(t *testing.T) {
	for reason, state := range map[string]mockserver.State{
		"success": "success", "fail": "failed", "crash": "crashed", "kill": "killed", "cancel": "cancelled", "exception": "exception",
	} {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
		c, id := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1")})
		c.OK("run:"+id, "run:complete", `{"reason":"`+reason+`","error_type":"T","error_message":"m","final_state":{"a":1}}`)
		got, err := m.Wait(mocktest.InTime(t), id)
		require.NoError(t, err)
		require.Equal(t, mockserver.Result{
			ID: id, State: state, Reason: reason, ErrorType: "T", ErrorMessage: "m", FinalState: json.RawMessage(`{"a":1}`),
		}, got)
	}
}

// A log line sent twice is stored twice: nothing here is idempotent for a worker to lean on.
func TestWritesAreNotIdempotent(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
	c, id := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1")})
	first := c.OK("run:"+id, "run:log", `{"message":["hi"],`+stamp+`}`)
	second := c.OK("run:"+id, "run:log", `{"message":["hi"],`+stamp+`}`)
	require.NotEqual(t, first, second, "each has its log_line_id")
	record, _ := m.Inspect(id)
	require.Len(t, record.Events, 2)
}

func TestDataclipPolicies(t *testing.T) {
	t.Run("kept", func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
		c, id := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1"), Dataclip: json.RawMessage(`{"data":{"é":1}}`)})
		for range 2 {
			f := c.Exchange("run:"+id, "fetch:dataclip", `{}`)
			require.True(t, f.Binary)
			require.Equal(t, `{"data":{"é":1}}`, string(f.Payload))
		}
		var fetched struct {
			DataclipID string `json:"dataclip_id"`
		}
		require.NoError(t, json.Unmarshal([]byte(c.OK("run:"+id, "fetch:plan", `{}`)), &fetched))
		c.OK("run:"+id, "step:start", `{"step_id":"`+step1+`","job_id":"j1","input_dataclip_id":"`+fetched.DataclipID+`"}`)
	})
	t.Run("wiped after the first read", func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, WipeDataclips: true})
		c, id := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1"), Dataclip: json.RawMessage(`{"data":{}}`)})
		require.Equal(t, `{"data":{}}`, c.OK("run:"+id, "fetch:dataclip", `{}`))
		require.Equal(t, `null`, c.OK("run:"+id, "fetch:dataclip", `{}`))
		c.OK("run:"+id, "step:start", `{"step_id":"`+step1+`","job_id":"j1"}`)
		c.OK("run:"+id, "step:complete", `{"step_id":"`+step1+`","reason":"success","output_dataclip_id":"`+clip1+`"}`)
	})
	t.Run("shared by id", func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
		m.AddDataclip("d", json.RawMessage(`{"shared":true}`))
		c, id := m.Claimed(mockserver.Run{Plan: json.RawMessage(`{"id":"r1","dataclip_id":"d","jobs":[]}`)})
		require.Equal(t, `{"shared":true}`, c.OK("run:"+id, "fetch:dataclip", `{"id":"d"}`))
	})
}

func TestRunTimes(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
	c, id := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1"), Queue: "manual"})
	c.OK("run:"+id, "run:start", `{}`)
	c.OK("run:"+id, "run:complete", `{"reason":"success"}`)
	r, ok := m.Inspect(id)
	require.True(t, ok)
	require.Equal(t, "w", r.WorkerName)
	require.Equal(t, "manual", r.Queue)
	times := []time.Time{r.EnqueuedAt, r.ClaimedAt, r.StartedAt, r.FinishedAt}
	for i := 1; i < len(times); i++ {
		require.False(t, times[i].Before(times[i-1]))
	}
}
