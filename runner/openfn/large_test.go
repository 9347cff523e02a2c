package openfn

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// Guards against a run that crashes because a state is larger than a message of
// the host may be, when one that is somewhat smaller is only not sent.
func TestAStateThatIsLargerThanAMessageIsWithheld(t *testing.T) {
	long(t)
	b := newBench(t, Config{})
	const large = "fn(() => ({ data: 'x'.repeat(24e6), small: 1, webhookResponse: { status: 201 } }))"
	plan := `{"id":"` + runtest.NewID() + `","jobs":[{"id":"a","adaptor":"@openfn/language-common@3.3.4","body":"` + large + `"},
		{"id":"b","adaptor":"@openfn/language-common@3.3.4","body":"fn(s => ({ length: s.data.length }))"}],"edges":[{"source_job_id":"a","target_job_id":"b"}]}`
	record := b.Run(t.Context(), runner.Limits{}, mockserver.Run{Plan: json.RawMessage(plan)})
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.JSONEq(t, `{"length":24000000}`, string(record.FinalState))
	var completes []map[string]any
	for _, e := range record.Events {
		if e.Event == "step:complete" {
			var p map[string]any
			require.NoError(t, json.Unmarshal(e.Payload, &p))
			completes = append(completes, p)
		}
	}
	require.Equal(t, "DATACLIP_TOO_LARGE", completes[0]["output_dataclip_error"])
	require.NotContains(t, completes[0], "output_dataclip_id")
	require.Equal(t, map[string]any{"status": 201.0}, completes[0]["webhook_response"])
	require.Contains(t, completes[1], "output_dataclip_id")

	record = b.Job(large)
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.JSONEq(t, `{"data":"[REDACTED]","small":1,"webhookResponse":{"status":201}}`, string(record.FinalState))

	record = b.Job("fn(() => ({ data: 1, beside: 'x'.repeat(24e6) }))")
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.Empty(t, record.FinalState)

	record = b.Job("fn(() => { throw new Error('x'.repeat(24e6)); })")
	require.Equal(t, "JobError", record.ErrorType)
}

// Guards against a worker whose memory is filled by what no server takes: what is larger than
// a state or a line may be stays in the process, and a job that writes it past the host ends its run.
func TestWhatIsLargerThanAServerTakesStaysInTheProcess(t *testing.T) {
	b := newBench(t, Config{})
	limits := runner.Limits{PayloadMB: 1, LogPayloadMB: 1}
	record := b.Run(t.Context(), limits, runtest.OneJob("fn(s => { console.log('x'.repeat(20e6)); return s; })"))
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.Equal(t, []string{`"(this line had 20000004 bytes; it was left out)"`}, runtest.Lines(t, record, "JOB"))

	record = b.Run(t.Context(), limits, runtest.OneJob("fn(s => { "+escape+`const text = '{"type":"log","message":["' + 'x'.repeat(20e6) + '"]}\n'; for (let at = 0; at < text.length;) try { at += get('fs').writeSync(1, text.slice(at, at + 65536)); } catch (e) { if (e.code !== 'EAGAIN') throw e; } return s; })`))
	require.Equal(t, "The engine sent a message of more than 10485760 bytes", record.ErrorMessage)
}
