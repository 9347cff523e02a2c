package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inFile writes a file into a new folder, and returns its path.
func inFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestRunExecutesAJob(t *testing.T) {
	job := inFile(t, "double.js", "fn(state => {\n  console.log('got', state.data);\n  return { data: state.data.n * 2 };\n});\n")
	input := inFile(t, "state.json", `{"data":{"n":21}}`)
	code, stdout, stderr := execute(t.Context(), nil, "run", job, "--engine", "js", "--input", input)
	require.Equal(t, exitOK, code, stderr)
	require.JSONEq(t, `{"data":42}`, stdout)
	require.Regexp(t, `^    got {"n":21}\n✓ double  \d+m?s\nsuccess\n$`, stderr)
}

func TestRunShowsTheLineOfAnError(t *testing.T) {
	for name, test := range map[string]struct {
		job, want string
		code      int
	}{
		"fail":         {"fn(state => {\n  return state.data.x.y;\n});", "  2 |   return state.data.x.y;\n    |                      ^\nfail\n", exitFailure},
		"crash":        {"fn(state => nope(state));", "  ReferenceError: nope is not defined\n  1 | fn(state => nope(state));\n    |             ^\ncrash\n", 5},
		"adaptor's":    {"fn(s => s);\n\n  assert(false, 'no good');", "  3 |   assert(false, 'no good');\n    |   ^\nfail\n", exitFailure},
		"own words":    {"fn(s => s);\nfn(() => {\n  throw new Error('row 1 is bad at line 1, column 1');\n});", "  3 |   throw new Error('row 1 is bad at line 1, column 1');\n    |                  ^\nfail\n", exitFailure},
		"not compiled": {"fn(state => {\n  (\n});", "crash\n  CompileError: job: Unexpected token (3:0)\n  3 | });\n    | ^\n", 5},
		"exception":    {"fn(state => state)", "exception\n", 7},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"run", inFile(t, "job.js", test.job), "--engine", "js"}
			if name == "exception" {
				args = append(args, "--adaptor", "@openfn/language-nowhere")
			}
			code, _, stderr := execute(t.Context(), nil, args...)
			require.Equal(t, test.code, code, stderr)
			require.Contains(t, stderr, test.want)
		})
	}
}

// Guards against a state that comes out changed, or a minute of installing, without a word.
func TestRunTellsWhatTheWorkerDid(t *testing.T) {
	job := inFile(t, "big.js", "fn(() => ({ data: 'x'.repeat(2 ** 21) }))")
	code, stdout, stderr := execute(t.Context(), nil, "run", job, "--engine", "js", "--payload-memory", "1")
	require.Equal(t, exitOK, code, stderr)
	require.JSONEq(t, `{"data":"[REDACTED]"}`, stdout)
	require.Contains(t, stderr, "\n  ! The final state has 2097163 bytes, over the payload limit of 1mb: its data was not sent\n")

	engine := inFile(t, "engine.sh", `echo '{"type":"ready"}'; read -r run; echo printed; echo '{"type":"end"}'; cat`)
	_, _, stderr = execute(t.Context(), nil, "run", inFile(t, "job.js", "x"), "--engine", "sh "+engine)
	require.Contains(t, stderr, "    printed\n")

	pretendNode(t)
	_, _, stderr = execute(t.Context(), nil, "run", inFile(t, "job.js", "one()"), "--adaptor", "one@1.0.0", "--repo-dir", t.TempDir())
	require.Contains(t, stderr, "    Installing @openfn/language-one@1.0.0\n")
	require.NotContains(t, stderr, "Memory limit")
}

const twoSteps = `steps:
  - id: load
    configuration: clinic
    expression: "fn(s => ({ ...s, data: { user: s.configuration.user } }))"
    next: { store: true }
  - id: store
    name: Store it
    expression: "fn(s => ({ ...s, data: { stored: s.data.user ?? 'nothing' } }))"
`

func TestRunTakesAWorkflowAndItsCredentials(t *testing.T) {
	flow := inFile(t, "workflow.yaml", twoSteps)
	credential := inFile(t, "clinic.json", `{"user":"ada"}`)
	requireUsageError(t, `the step "load" needs the credential "clinic": give it with --credential 'clinic=FILE'`, nil, "run", flow, "--engine", "js")
	requireUsageError(t, `--credential other: no step names it; they name clinic`, nil, "run", flow, "--engine", "js", "--credential", "other="+credential)

	code, stdout, stderr := execute(t.Context(), nil, "run", flow, "--engine", "js", "--credential", "clinic="+credential)
	require.Equal(t, exitOK, code, stderr)
	require.JSONEq(t, `{"data":{"stored":"ada"}}`, stdout)

	code, stdout, stderr = execute(t.Context(), nil, "run", flow, "--engine", "js", "--credential", "clinic="+credential, "--only", "Store it")
	require.Equal(t, exitOK, code, stderr)
	require.JSONEq(t, `{"data":{"stored":"nothing"}}`, stdout)
	require.NotContains(t, stderr, "load")
}

// Guards against a person who is told to give the credential of a step that will not be executed.
func TestCredentialsOfStepsThatAreLeftOutAreNotAskedFor(t *testing.T) {
	flow := inFile(t, "workflow.yaml", twoSteps)
	for _, option := range []string{"--only", "--start"} {
		code, stdout, stderr := execute(t.Context(), nil, "run", flow, "--engine", "js", option, "store")
		require.Equal(t, exitOK, code, stderr)
		require.JSONEq(t, `{"data":{"stored":"nothing"}}`, stdout)
		require.NotContains(t, stderr, "!", "what is left out on purpose is no mistake")
	}
	last := inFile(t, "workflow.yaml", "steps:\n  - { id: a, expression: 'fn(s => s)', next: b }\n  - { id: b, configuration: clinic, expression: 'fn(s => s)' }\n")
	code, _, stderr := execute(t.Context(), nil, "run", last, "--engine", "js", "--end", "a")
	require.Equal(t, exitOK, code, stderr)
	require.NotContains(t, stderr, "!")
}

// Guards against a mistake that the server would have warned of, and that reads as a success here.
func TestRunWarnsOfWhatCanHardlyBeMeant(t *testing.T) {
	plan := inFile(t, "plan.json", `{"jobs":[{"id":"a","body":"fn(s => s)"},{"id":"b","expression":"fn(s => s)"}],
		"edges":[{"source_job_id":"a","target_job_id":"b","condition":"on_success"}]}`)
	_, _, stderr := execute(t.Context(), nil, "run", plan, "--engine", "js")
	for _, want := range []string{
		`  ! the job "a" has no adaptor, and calls fn(): operations are an adaptor's, such as "@openfn/language-common"` + "\n",
		`  ! the job "b" has a field "expression", which nothing reads: did you mean "body"?` + "\n",
		`has the condition "on_success": did you mean on_job_success?` + "\n",
	} {
		require.Contains(t, stderr, want)
	}
	flow := inFile(t, "flow.yaml", "steps:\n  - id: a\n    expresion: fn(s => s)\n")
	_, _, stderr = execute(t.Context(), nil, "run", flow, "--engine", "js")
	require.Contains(t, stderr, "  ! "+flow+`:3: the step "a" has a field "expresion", which nothing reads: did you mean "expression"?`+"\n")
	input := inFile(t, "in.json", "{\n\"a\":1,\n}")
	requireUsageError(t, "--input "+input+" is not JSON: line 3, column 1: invalid character '}' looking for beginning of object key string", nil, "run", plan, "--input", input)
}

func TestRunPrintsItsEvents(t *testing.T) {
	code, stdout, stderr := execute(t.Context(), nil, "run", inFile(t, "job.js", "fn(s => s)"), "--engine", "js", "--json")
	require.Equal(t, exitOK, code)
	require.Empty(t, stderr)
	var events []string
	for line := range strings.Lines(stdout) {
		var event struct{ Event, Status string }
		require.NoError(t, json.Unmarshal([]byte(line), &event))
		require.Equal(t, "ok", event.Status)
		if event.Event != "run:log" {
			events = append(events, event.Event)
		}
	}
	require.Equal(t, []string{"fetch:plan", "run:start", "step:start", "step:complete", "run:complete"}, events)
}

func TestRunIsCancelledBySignal(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	job := inFile(t, "job.js", "fn(async s => { console.log('here'); await new Promise(() => setTimeout(() => {}, 60000)); })")
	code, _, stderr := executeUntil(ctx, "here", interrupt, "run", job, "--engine", "js")
	require.Equal(t, exitAborted, code)
	require.Contains(t, stderr, "\ncancel\n")
}

// Guards against a save that is not seen, or that ends the command.
func TestRunWatches(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	job := inFile(t, "job.js", "fn(s => { nope() })")
	mend := sync.OnceFunc(func() { require.NoError(t, os.WriteFile(job, []byte("fn(s => ({ data: 'mended' }))"), 0o600)) })
	p := &program{getenv: func(name string) string { return getenv(nil, name) }, abort: context.Background()}
	p.stdout = &actOn{text: "mended", act: interrupt}
	stderr := &actOn{text: "— again", act: mend}
	p.stderr = stderr
	require.Equal(t, exitOK, p.run(ctx, []string{"phxworker", "run", job, "--engine", "js", "--watch"}))
	require.Contains(t, stderr.String(), "nope is not defined")
}

// Guards against a file that an editor has emptied and not written yet: what is half there would be executed.
func TestAFileIsNotReadInTheMiddleOfASave(t *testing.T) {
	job := inFile(t, "job.js", "fn(s => s)")
	long := time.Now().Add(-time.Hour)
	save := func(text string, at time.Time) {
		require.NoError(t, os.WriteFile(job, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(job, at, at))
	}
	for name, tear := range map[string]func(){
		"emptied":              func() { save("", long) },
		"moved out of the way": func() { require.NoError(t, os.Remove(job)) },
	} {
		t.Run(name, func(t *testing.T) {
			save("fn(s => s)", long)
			known := stamps([]string{job})
			tear()
			looks, settled := make(chan time.Time), make(chan struct{})
			go func() { awaitSaves(t.Context(), looks, known); close(settled) }()
			looks <- time.Time{}
			looks <- time.Time{} // it has looked again, and still waits
			save("fn(s => 1)", long)
			select {
			case looks <- time.Time{}:
				<-settled
			case <-settled:
			}
		})
	}
	save("fn(s =", time.Now().Add(fresh/2)) // a moment ago, however slow this machine is
	require.True(t, torn(job, "there"))
	save("fn(s =", long)
	require.False(t, torn(job, "there"))
}

// Guards against whoever tries a job of another adaptor, and is told nothing but that its operation is not defined.
func TestAnOperationOfAnotherAdaptorIsHintedAt(t *testing.T) {
	job := inFile(t, "get.js", "get('https://clinic.example');")
	code, _, stderr := execute(t.Context(), nil, "run", job, "--engine", "js")
	require.Equal(t, 5, code)
	const hint = "  if get() is an operation of another adaptor than @openfn/language-common, name that, as in --adaptor http\n"
	require.True(t, strings.HasSuffix(stderr, "crash\n"+hint), stderr)
	_, _, stderr = execute(t.Context(), nil, "run", job, "--engine", "js", "--adaptor", "common")
	require.NotContains(t, stderr, "--adaptor")
	folder := filepath.Join(t.TempDir(), "nodejs")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "workflow.yaml"), []byte("steps:\n  - expression: get('/')\n"), 0o600))
	code, _, stderr = execute(t.Context(), nil, "run", folder, "--engine", "js")
	require.Equal(t, 5, code)
	require.NotContains(t, stderr, "--adaptor", "its steps name their own")
}

func TestWhatIsWatchedIsNamed(t *testing.T) {
	require.Equal(t, "job.js", listed([]string{"a/job.js", "a/job.js"}))
	require.Equal(t, "workflow.yaml, a.js or in.json", listed([]string{"a/workflow.yaml", "a/a.js", "in.json", t.TempDir()}))
}

func TestRunWatchesNoStandardInput(t *testing.T) {
	requireUsageError(t, "--input - and --watch exclude each other: standard input is read once", nil, "run", "job.js", "--input", "-", "--watch")
}

func TestAReasonThatIsNotKnownIsNoSuccess(t *testing.T) {
	for _, reason := range []string{"lost", ""} {
		require.Equal(t, exitFailure, exitCode(&reasonError{reason}), reason)
	}
}

func TestAFinalStateIsPrintedAsItIs(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, printState(&out, json.RawMessage(`{"id":12345678901234567890,"b":"<&>","a":[]}`)))
	require.Equal(t, "{\n  \"id\": 12345678901234567890,\n  \"b\": \"<&>\",\n  \"a\": []\n}\n", out.String())
}

// Guards against a watch that does not see the file that it has just asked for, nor the input.
func TestRunWatchesAllOfItsFiles(t *testing.T) {
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	flow := inFile(t, "workflow.yaml", "steps:\n  - expression: ./late.js\n")
	input := inFile(t, "input.json", `{"data":"one"}`)
	write := func(path, text string) func() {
		return sync.OnceFunc(func() { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) })
	}
	steps := []func(){write(filepath.Join(filepath.Dir(flow), "late.js"), "fn(s => s)"), write(input, `{"data":"another"}`)}
	stderr := &actOn{text: "— again"}
	stderr.act = func() {
		if n := strings.Count(stderr.String(), "— again"); n <= len(steps) {
			steps[n-1]()
		}
	}
	p := &program{getenv: func(name string) string { return getenv(nil, name) }, abort: context.Background(), stderr: stderr}
	p.stdout = &actOn{text: "another", act: interrupt}
	require.Equal(t, exitOK, p.run(ctx, []string{"phxworker", "run", flow, "--engine", "js", "--input", input, "--watch"}))
	require.ErrorIs(t, ctx.Err(), context.Canceled, stderr.String())
}

// executeUntil runs the program, and acts when it has written a text on standard error.
func executeUntil(ctx context.Context, text string, act func(), args ...string) (code int, stdout, stderr string) {
	var out bytes.Buffer
	errs := &actOn{text: text, act: act}
	p := &program{getenv: func(name string) string { return getenv(nil, name) }, stdout: &out, stderr: errs, abort: context.Background()}
	code = p.run(ctx, append([]string{"phxworker"}, args...))
	return code, out.String(), errs.String()
}

// actOn acts when a text is written.
type actOn struct {
	bytes.Buffer

	text string
	act  func()
}

func (w *actOn) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.act()
	}
	return n, err
}

// What docs/workflows.md shows.
func TestTheExampleOfAWorkflow(t *testing.T) {
	const dir = "../../examples/visits"
	credential := "clinic=" + dir + "/clinic.json"
	code, stdout, stderr := execute(t.Context(), nil, "run", dir, "--engine", "js", "--input", dir+"/visit.json", "--credential", credential)
	require.Equal(t, exitOK, code, stderr)
	require.JSONEq(t, `{"data":{"stored":"Ada","by":"reception"}}`, stdout)

	undated := inFile(t, "visit.json", `{"data":{"patient":{"name":"Ada"}}}`)
	code, stdout, stderr = execute(t.Context(), nil, "run", dir, "--engine", "js", "--input", undated, "--credential", credential)
	require.Equal(t, exitOK, code, "a failure that an edge follows is no failure of the run")
	require.JSONEq(t, `{"data":{"problem":"the visit of Ada has no date"}}`, stdout)
	page, err := os.ReadFile("../../docs/workflows.md")
	require.NoError(t, err)
	took := regexp.MustCompile(`  \d+m?s\n`)
	require.Contains(t, took.ReplaceAllString(string(page), "\n"), took.ReplaceAllString(stderr, "\n"))
	for _, file := range []string{"workflow.yaml", "check.js"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		shown := string(text)
		if _, rest, found := strings.Cut(shown, "docs/workflows.md explains it.\n"); found {
			shown = rest
		}
		require.Contains(t, string(page), shown)
	}
}
