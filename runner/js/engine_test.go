package js

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

func TestAdaptors(t *testing.T) {
	const beyond = ", which is not built in; this run needs the OpenFn engine: install Node, and use --engine auto or openfn"
	tests := []struct {
		adaptor             string
		version             string // of language-common, as run:start has it
		reason, kind, error string
	}{
		{adaptor: "@openfn/language-common@3.3.4", version: "3.3.4", reason: "success"},
		{adaptor: "@openfn/language-common@3.1.0", version: "3.1.0", reason: "success"},
		{adaptor: "@openfn/language-common@latest", version: commonVersion, reason: "success"},
		{adaptor: "@openfn/language-common", version: commonVersion, reason: "success"},
		{adaptor: "@openfn/language-common@3.3.5", reason: "exception", kind: "AutoinstallError", error: "Error installing @openfn/language-common@3.3.5: job a has the adaptor @openfn/language-common@3.3.5" + beyond},
		{adaptor: "@openfn/language-common@local", reason: "exception", kind: "AutoinstallError", error: "Error installing @openfn/language-common@local: job a has the adaptor @openfn/language-common@local" + beyond},
		{adaptor: "@openfn/language-http@7.2.10", reason: "exception", kind: "AutoinstallError", error: "Error installing @openfn/language-http@7.2.10: job a has the adaptor @openfn/language-http@7.2.10" + beyond},
		{adaptor: "lodash@4.0.0", reason: "crash", kind: "ImportError", error: "module blacklisted: lodash"},
		{adaptor: "", reason: "success"},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.adaptor, func(t *testing.T) {
			plan := `{"id":"` + runtest.NewID() + `","jobs":[{"id":"a","adaptor":"` + tt.adaptor + `","body":"// nothing"}]}`
			record := w.Run(t.Context(), runner.Limits{}, mockserver.Run{Plan: json.RawMessage(plan)})
			require.Equal(t, []string{tt.reason, tt.kind, tt.error}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
			require.Equal(t, tt.reason == "exception", record.StartedAt.IsZero(), "an adaptor that is missing is told before run:start")
			for _, e := range record.Events {
				if e.Event != "run:start" {
					continue
				}
				var start struct{ Versions map[string]any }
				require.NoError(t, json.Unmarshal(e.Payload, &start))
				require.Equal(t, "js", start.Versions["engine"])
				if tt.version != "" {
					require.Equal(t, []any{tt.version}, start.Versions[commonAdaptor])
				}
			}
		})
	}
}

func TestStatePropsToRemove(t *testing.T) {
	const body = `fn(() => ({ configuration: 1, response: 2, secret: 3, kept: 4 }))`
	w := runtest.New(t, New(Config{}))
	require.JSONEq(t, `{"secret":3,"kept":4}`, string(w.Job(body).FinalState))
	w.Engine = New(Config{StatePropsToRemove: []string{"secret"}})
	require.JSONEq(t, `{"configuration":1,"response":2,"kept":4}`, string(w.Job(body).FinalState))
}

// Runs that execute at the same time have nothing in common.
func TestRunsAtTheSameTime(t *testing.T) {
	engine := New(Config{})
	for _, name := range []string{"one", "two", "three", "four"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runtest.New(t, New(Config{}))
			w.Engine = engine
			for range 5 {
				record := w.Job(`fn(async s => { globalThis.who ??= '` + name + `'; await new Promise(r => setTimeout(r, 1)); console.log(who); return { who }; })`)
				require.JSONEq(t, `{"who":"`+name+`"}`, string(record.FinalState))
				require.Equal(t, []string{`"` + name + `"`}, runtest.Lines(t, record, "JOB"))
			}
		})
	}
}

// FuzzJob looks for a job that ends more than its own run.
func FuzzJob(f *testing.F) {
	for _, body := range []string{
		typicalJob,
		`fn(s => { throw s; })`,
		`export default [async s => { for await (const x of [1]) console.log(x, s); return new Proxy(s, {}); }]`,
		`fn(() => new Promise((_, no) => setTimeout(no, 1, 5)));`,
		"each($.data, fn(state => JSON.parse('{')))",
		`fn(s => ({ ...s, toJSON() { return this; }, then: null }))`,
	} {
		f.Add(body)
	}
	shared := runtest.New(f, New(Config{}))
	f.Fuzz(func(t *testing.T, body string) {
		w := *shared
		w.T = t
		run := runtest.OneJob(body, `"options":{"run_timeout_ms":200,"run_memory_limit_mb":8}`)
		run.Dataclip = json.RawMessage(typicalInput)
		record := w.Run(t.Context(), runner.Limits{}, run)
		require.NotEqual(t, "lost", record.Reason)
		require.NotEqual(t, "Panic", record.ErrorType, record.ErrorMessage)
	})
}

// What a worker asks before it claims.
func TestCheck(t *testing.T) {
	require.NoError(t, New(Config{}).Check(t.Context()))
}
