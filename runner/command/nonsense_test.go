package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNonsenseEndsTheRun(t *testing.T) {
	const started = `say {"type":"step-start","step":"s","job":"a"}`
	const completed = `say {"type":"step-complete","step":"s","reason":"success","leaf":true}`
	tests := []struct {
		name   string
		script []string
		want   string
	}{
		{name: "unknown step", script: []string{`say {"type":"log","step":"x","message":[]}`}, want: `it logged for the step "x", which it has not started`},
		{name: "complete before start", script: []string{completed}, want: `it completed the step "s", which it has not started`},
		{name: "complete twice", script: []string{started, completed, completed}, want: `it completed the step "s" twice`},
		{name: "step id reused", script: []string{started, completed, started}, want: `it started the step "s" twice`},
		{name: "no step id", script: []string{`say {"type":"step-start","job":"a"}`}, want: `a step-start has no "step"`},
		{name: "unknown job", script: []string{`say {"type":"step-start","step":"s","job":"z"}`}, want: `it started a step of the job "z", which the plan does not have`},
		{name: "from an open step", script: []string{started, `say {"type":"step-start","step":"s2","job":"a","from":"s"}`}, want: `the step "s2" comes from the step "s", which is not complete`},
		{name: "step reason", script: []string{started, `say {"type":"step-complete","step":"s","reason":"great","leaf":true}`}, want: `it completed the step "s" with the reason "great"`},
		{name: "no leaf", script: []string{started, `say {"type":"step-complete","step":"s","reason":"fail"}`}, want: `the step-complete of the step "s" does not say whether it is a leaf`},
		{name: "end reason", script: []string{`say {"type":"end","reason":"great"}`}, want: `it ended the run with the reason "great"`},
		{name: "wrong type", script: []string{`say {"type":"log","message":"text"}`}, want: `"message" of a log message is no array`},
		{name: "ready again", script: []string{`say {"type":"ready"}`}, want: `it sent ready a second time`},
		{name: "a long step id", script: []string{`say {"type":"step-start","job":"a","step":"` + strings.Repeat("s", maxName+1) + `"}`}, want: `"step" in a message of type step-start has more than 1024 bytes`},
		{name: "a long reason", script: []string{`say {"type":"end","reason":"` + strings.Repeat("s", maxName+1) + `"}`}, want: `"reason" in a message of type end has more than 1024 bytes`},
		{name: "closed output", script: []string{"close", "deaf"}, want: `it closed its output before the end of the run`},
	}
	w := newWire(t, "ready", Config{Runs: 100})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.job(append(tt.script, "deaf")...)
			requireEnd(t, record, "crash", "ProtocolError", "The engine broke its protocol: "+tt.want)
		})
	}
	require.Equal(t, "1", runsOf(t, w.job("who", "ok {}")), "a process that sent nonsense had another run")
}

func TestWhatIsNoMessageIsALineOfOutput(t *testing.T) {
	w := newWire(t, "ready", Config{})
	record := w.job(
		`say {"type":"telemetry","n":1}`, `say {"type":5}`, `say {"half":`, `say [1]`, `say null`, `say "text"`,
		`say {"type":"log"`, "say ", `unquote "\xff\xfe bytes"`, `unquote "{\"type\":\"log\",\"source\":\"JOB\",\"message\":[\"\xff\"]}"`,
		`write {"type":"end"}`, "exit 0",
	)
	requireEnd(t, record, "success", "", "")
	require.Equal(t, []string{
		`"{\"type\":\"telemetry\",\"n\":1}"`, `"{\"type\":5}"`, `"{\"half\":"`, `"[1]"`, `"null"`, `"\"text\""`,
		`"{\"type\":\"log\""`, `"� bytes"`,
	}, logLines(t, record, "OUT"))
	require.Equal(t, []string{`"�"`}, logLines(t, record, "JOB"), "invalid UTF-8 would make the server close the connection")
}

func TestOfADuplicateKeyTheLastCounts(t *testing.T) {
	w := newWire(t, "ready", Config{})
	record := w.job(`say {"type":"ready","type":"end","reason":"fail","reason":"crash","error_type":"T","error_message":"m"}`)
	requireEnd(t, record, "crash", "T", "m")
}

// Guards against a worker whose memory is filled with texts of which the server gets the
// beginning only, and which wait in the outbox or are kept until the end.
func TestTextsAreCutWhereTheyAreRead(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	long := strings.Repeat("ä", 1<<20)
	line := `{"type":"step-complete","step":"s","leaf":true,"reason":"fail","error_type":"` + long + `","error_message":"` + long + `","thread_id":"` + long + `","source":"` + long + `","level":"` + long + `"}`
	m := parse([]byte(line))
	result, logged := m.result(), m.line()
	require.Len(t, result.ErrorType, maxName)
	require.Len(t, result.ThreadID, maxName)
	require.Len(t, result.ErrorMessage, maxError)
	require.Len(t, logged.Source, maxWord)
	require.Len(t, logged.Level, maxWord)
}
