package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/examples"
	"github.com/phxworker/phxworker/mockserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// playedBy is an engine that ends each run as the table says, by name; the
// others succeed.
func playedBy(ends map[string]error) phxworker.Engine {
	return phxworker.Func(func(_ context.Context, run *phxworker.Run) (any, error) {
		return map[string]any{}, ends[run.ID]
	})
}

func plan(name, queue, reason, errorType string) examples.Example {
	return examples.Example{
		Name: name, Queue: queue, Plan: json.RawMessage(`{"id":"` + name + `","jobs":[{"id":"a"}]}`),
		Expect: examples.Expectation{Reason: reason, ErrorType: errorType},
	}
}

// anyTime masks times, which no test may depend on.
var anyTime = regexp.MustCompile(` *\d+(\.\d+)? m?s\b`)

func TestRunShowsWhatBecameOfEachRun(t *testing.T) {
	var out bytes.Buffer
	err := Run(t.Context(), Config{
		Out: &out,
		Engine: playedBy(map[string]error{
			"bad":  errors.New("no stock"),
			"late": &phxworker.Failure{Reason: "kill", Type: "TimeoutError", Message: "took\ntoo long"},
		}),
		Examples: []examples.Example{
			plan("good", "manual", "success", ""), plan("quick", "fast_lane", "success", ""),
			plan("bad", "default", "fail", "JobError"), plan("late", "manual", "kill", "TimeoutError"),
		},
	})
	require.NoError(t, err)

	parts := strings.Split(anyTime.ReplaceAllString(out.String(), " <t>"), "\n\n")
	require.Regexp(t, `^watch it in a browser: http://127\.0\.0\.1:\d+$`, parts[0])
	parts = parts[1:]
	require.Len(t, parts, 4)
	require.ElementsMatch(t, []string{
		"start  good, queue manual", "end    good: success",
		"start  quick, queue fast_lane", "end    quick: success",
		"start  bad, queue default", "end    bad: fail, JobError: no stock",
		"start  late, queue manual", "end    late: kill, TimeoutError: took too long",
	}, strings.Split(parts[0], "\n"))
	var rows []string
	for _, row := range strings.Split(parts[1], "\n")[1:] {
		rows = append(rows, strings.Join(strings.Fields(row), " "))
	}
	rows[1] = strings.Replace(rows[1], "manual>*", "fast_lane", 1) // the wildcard may be faster
	require.Equal(t, []string{
		"good manual manual>* success <t> <t>",
		"quick fast_lane fast_lane success <t> <t>", //nolint:dupword // queue and group
		"bad default manual>* fail <t> <t>",
		"late manual manual>* kill <t> <t>",
	}, rows)
	require.Contains(t, parts[2], "late  TimeoutError: took too long")
	require.Equal(t, "4 runs in <t>. All ended as their examples say they should.\n", parts[3])
}

func TestRunSaysWhichRunsEndedOtherwise(t *testing.T) {
	var out bytes.Buffer
	err := Run(t.Context(), Config{
		Out: &out, Engine: playedBy(map[string]error{"b": errors.New("no stock")}),
		Examples: []examples.Example{plan("a", "manual", "crash", "CompileError"), plan("b", "manual", "success", ""), plan("c", "manual", "success", "")},
	})
	var wrong *OutcomeError
	require.ErrorAs(t, err, &wrong)
	require.EqualError(t, err, "2 of 3 runs did not end as they should: a (success instead of crash, CompileError); b (fail, JobError instead of success)")
	require.NotContains(t, out.String(), "All ended")
}

func TestRunNamesThePlanTheServerRefuses(t *testing.T) {
	broken := plan("broken", "manual", "success", "")
	broken.Plan = json.RawMessage(`{"id":"broken","jobs":7}`)
	err := Run(t.Context(), Config{Out: new(bytes.Buffer), Engine: playedBy(nil), Examples: []examples.Example{broken}})
	var invalid *mockserver.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, "example broken.json")
	require.ErrorContains(t, err, "jobs")
}

func TestRunIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	told := make(chan struct{})
	out := &interruptOn{text: "available", interrupt: sync.OnceFunc(func() { close(told) })}
	engine := phxworker.Func(func(ctx context.Context, _ *phxworker.Run) (any, error) {
		interrupt()
		select { // no slot gets free before the table is there
		case <-told:
		case <-ctx.Done():
		}
		return map[string]any{}, nil
	})
	var plans []examples.Example // one more than there are slots
	for name := range strings.FieldsSeq("a b c d e f") {
		plans = append(plans, plan(name, "fast_lane", "success", ""))
	}
	require.ErrorIs(t, Run(ctx, Config{Out: out, Engine: engine, Examples: plans}), errInterrupted)
	require.Contains(t, out.String(), "available", "a run that was never claimed is shown as such")
}

// interruptOn ends a context when the text is written.
type interruptOn struct {
	bytes.Buffer

	text      string
	interrupt context.CancelFunc
}

func (w *interruptOn) Write(p []byte) (int, error) {
	defer func() {
		if strings.Contains(w.String(), w.text) {
			w.interrupt()
		}
	}()
	return w.Buffer.Write(p)
}

func TestRunStaysUpUntilItIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var out *interruptOn
	out = &interruptOn{text: "For another worker", interrupt: func() {
		defer interrupt()
		address := regexp.MustCompile(`in a browser: (\S+)`).FindStringSubmatch(out.String())[1]
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		request.Header.Set("Accept", "text/html")
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `<a href="/page/run?id=a">a</a>`)
	}}
	err := Run(ctx, Config{Out: out, Keep: true, Engine: playedBy(nil), Examples: []examples.Example{plan("a", "manual", "success", "")}})
	require.NoError(t, err)
	require.Regexp(t, `curl 'http://127\.0\.0\.1:\d+/run\?queue=manual' -d '\{"jobs":`, out.String())
	require.Regexp(t, `--lightning ws://127\.0\.0\.1:\d+/worker --secret \w+`, out.String())
}
