package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func passes(*T) {}

func fails(t *T) { t.Fatalf("a cat", "a dog, token=abc") }

func try1(t *testing.T, c Case, o Options) Result {
	t.Helper()
	report, err := Run(t.Context(), []Case{c}, o)
	require.NoError(t, err)
	return report.Results[0]
}

func TestSelect(t *testing.T) {
	cases := []Case{{ID: "W4.2"}, {ID: "W4.20"}, {ID: "W5.1"}}
	for _, test := range []struct {
		name     string
		patterns []string
		want     string
		err      string
	}{
		{name: "all", want: "W4.2 W4.20 W5.1"},
		{name: "one", patterns: []string{"W4.2"}, want: "W4.2"},
		{name: "a chapter", patterns: []string{"W4"}, want: "W4.2 W4.20"},
		{name: "several, in the order of the cases", patterns: []string{"W5.1", "W4.20"}, want: "W4.20 W5.1"},
		{name: "none", patterns: []string{"W9"}, err: `there is no case "W9"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			selected, err := Select(cases, test.patterns)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			var got []string
			for _, c := range selected {
				got = append(got, c.ID)
			}
			require.Equal(t, test.want, strings.Join(got, " "))
		})
	}
}

func TestWhatBecomesOfACase(t *testing.T) {
	for _, test := range []struct {
		name string
		c    Case
		o    Options
		want Verdict
		says string
	}{
		{name: "it passes", c: Case{Run: passes}, want: Passed},
		{name: "it fails", c: Case{Run: fails}, want: Failed, says: "expected a cat; came: a dog, token=abc"},
		{name: "it fails and goes on", c: Case{Run: func(t *T) { t.Failf("one", "two"); t.Skipf("enough") }}, want: Failed, says: "expected one; came: two"},
		{name: "it is skipped", c: Case{Run: func(t *T) { t.Skipf("the worker has no %s", "legs") }}, want: NotTried, says: "the worker has no legs"},
		{name: "it panics", c: Case{Run: func(*T) { panic("oh") }}, want: Failed, says: "the kit panicked"},
		{name: "it is slow", c: Case{Slow: true, Run: fails}, want: NotTried, says: "--slow"},
		{name: "it is slow, and asked for", c: Case{Slow: true, Run: passes}, o: Options{Slow: true}, want: Passed},
		{name: "it is over its limit", c: Case{Limit: time.Second, Run: func(t *T) { <-t.Context().Done(); t.Fatalf("an end", "%v", context.Cause(t.Context())) }}, want: Failed, says: "limit of 1s"},
		{name: "it is over its limit, and there is patience", c: Case{Limit: time.Second, Run: func(*T) { time.Sleep(2500 * time.Millisecond) }}, o: Options{Patience: 3}, want: Passed},
		{name: "it is over a limit with patience", c: Case{Limit: time.Second, Run: func(t *T) { <-t.Context().Done(); t.Fatalf("an end", "%v", context.Cause(t.Context())) }}, o: Options{Patience: 3}, want: Failed, says: "limit of 3s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.c.ID = "W1.1"
				r := try1(t, test.c, test.o)
				require.Equal(t, test.want, r.Verdict)
				text := r.Reason
				for _, f := range r.Failures {
					text += f.String()
				}
				require.Contains(t, text, test.says)
			})
		})
	}
}

func TestCleanupsRunAfterAFailure(t *testing.T) {
	var order []string
	try1(t, Case{ID: "W1.1", Run: func(t *T) {
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() {
			t.Cleanup(func() { order = append(order, "of a cleanup") })
			order = append(order, "second")
		})
		t.Fatalf("a", "b")
	}}, Options{})
	require.Equal(t, []string{"second", "of a cleanup", "first"}, order)
}

// A cleanup that ends its case must not leave behind what the others were to end, such as a worker.
func TestACleanupThatEndsTheCaseLeavesNoneOut(t *testing.T) {
	for name, end := range map[string]func(*T){
		"it fails":  func(t *T) { t.Fatalf("an end", "none") },
		"it skips":  func(t *T) { t.Skipf("no end") },
		"it panics": func(*T) { panic("oh") },
	} {
		t.Run(name, func(t *testing.T) {
			left := true
			r := try1(t, Case{ID: "W1.1", Run: func(t *T) {
				t.Cleanup(func() { left = false })
				t.Cleanup(func() { end(t) })
			}}, Options{})
			require.False(t, left)
			require.NotEqual(t, Passed, r.Verdict)
		})
	}
}

// Limits are compared as durations: where an int has 32 bits, two seconds are too many nanoseconds for it.
func TestTheLongestCaseBeginsFirst(t *testing.T) {
	var order []string
	var cases []Case
	for id, limit := range map[string]time.Duration{"W1.1": time.Second, "W1.2": time.Hour, "W1.3": 4 * time.Second} {
		cases = append(cases, Case{ID: id, Limit: limit, Run: func(*T) { order = append(order, id) }})
	}
	_, err := Run(t.Context(), cases, Options{Parallel: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"W1.2", "W1.3", "W1.1"}, order)
}

// What is interrupted is no failure, and what was not begun is not either.
func TestAnInterruptLeavesCasesUntried(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	waits := func(t *T) {
		cancel(ErrInterrupted)
		<-t.Context().Done()
		t.Fatalf("an answer", "none")
	}
	report, err := Run(ctx, []Case{{ID: "W1.1", Run: waits}, {ID: "W1.2", Run: waits}}, Options{Parallel: 1})
	require.NoError(t, err)
	require.Equal(t, 2, report.Count("", NotTried))
	require.Equal(t, "interrupted while it was under way", report.Results[0].Reason)
	require.Equal(t, "interrupted before it began", report.Results[1].Reason)
	require.False(t, report.Shown())
}

func TestCasesGoSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := func(t *T) {
			select {
			case <-time.After(time.Second):
			case <-t.Context().Done():
			}
		}
		cases := make([]Case, 8)
		for i := range cases {
			cases[i] = Case{ID: "W1." + string(rune('1'+i)), Run: second}
		}
		var told int
		report, err := Run(t.Context(), cases, Options{Parallel: 4, Progress: func(Result) { told++ }})
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, report.Took)
		require.Equal(t, 8, told)
	})
}

func TestWhatIsRed(t *testing.T) {
	cases := []Case{
		{ID: "W1.1", Level: Must, Run: passes},
		{ID: "W1.2", Level: Must, Run: fails},
		{ID: "W1.3", Level: Should, Run: fails},
		{ID: "W1.4", Level: Must, Run: func(t *T) { t.Skipf("no") }},
	}
	for _, test := range []struct {
		name     string
		expected []string
		red      string
	}{
		{name: "no baseline: a must that failed", red: "W1.2"},
		{name: "an empty baseline: all that failed", expected: []string{}, red: "W1.2 W1.3"},
		{name: "as expected", expected: []string{"W1.2", "W1.3"}},
		{name: "a pass that is not expected", expected: []string{"W1.1", "W1.2", "W1.3"}, red: "W1.1"},
		{name: "a failure that is expected and was not tried", expected: []string{"W1.2", "W1.3", "W1.4"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			report, err := Run(t.Context(), cases, Options{Expected: test.expected})
			require.NoError(t, err)
			var red []string
			for _, r := range report.RedResults() {
				red = append(red, r.ID)
			}
			require.Equal(t, test.red, strings.Join(red, " "))
			require.False(t, report.Shown(), "a must has failed, and one was not tried")
		})
	}
	_, err := Run(t.Context(), cases, Options{Expected: []string{"W9.9"}})
	require.ErrorContains(t, err, `"W9.9", which is no case`)
}

// One of two cases that exclude each other is always of another version: it must not hide that a subject conforms.
func TestACaseOfAnotherVersionDoesNotCount(t *testing.T) {
	cases := []Case{
		{ID: "W3.27", Level: Must, Specs: []Spec{Spec215}, Run: fails},
		{ID: "W3.28", Level: Must, Specs: []Spec{Spec219}, Run: passes},
	}
	for _, test := range []struct {
		patterns []string
		shown    bool
		summary  string
	}{
		{shown: true, summary: "must: 1 passed; 0s"},
		{patterns: []string{"W3"}, shown: true, summary: "must: 1 passed; 0s"},
		{patterns: []string{"W3.27", "W3.28"}, shown: true, summary: "must: 1 passed; not for Lightning 2.19: W3.27; 0s"},
		{patterns: []string{"W3.27"}, summary: "not for Lightning 2.19: W3.27; 0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			report, err := Run(t.Context(), cases, Options{Cases: test.patterns})
			require.NoError(t, err)
			require.Equal(t, test.summary, report.Summary())
			require.Equal(t, test.shown, report.Shown())
		})
	}
}

func TestAReportWithoutAMustShowsNothing(t *testing.T) {
	report, err := Run(t.Context(), []Case{{ID: "W1.8", Level: Should, Run: passes}}, Options{})
	require.NoError(t, err)
	require.False(t, report.Shown())
	var page bytes.Buffer
	require.NoError(t, report.WriteHTML(&page))
	require.Contains(t, page.String(), "No must is in this report: conformance is not shown.")
}

func TestReadExpected(t *testing.T) {
	ids, err := ReadExpected(strings.NewReader("\ufeff# a comment\n\nW1.1 # until #12\n  W2.3\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"W1.1", "W2.3"}, ids)
	ids, err = ReadExpected(strings.NewReader(""))
	require.NoError(t, err)
	require.NotNil(t, ids, "an empty baseline is one")
	_, err = ReadExpected(strings.NewReader("W1.1\nW1.2 W2.3\n"))
	require.ErrorContains(t, err, "line 2")
}

func TestTokensAreNotInReports(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJ4In0.c2lnbmF0dXJl"
	for text, want := range map[string]string{
		`["1","1","run:a","phx_join",{"token":"abc","x":1}]`: `["1","1","run:a","phx_join",{"token":"…","x":1}]`,
		"ws://host/worker/websocket?token=" + jwt + "&vsn=2": "ws://host/worker/websocket?token=…&vsn=2",
		"the worker wrote " + jwt + " by mistake":            "the worker wrote … by mistake",
		"nothing of the kind":                                "nothing of the kind",
	} {
		require.Equal(t, want, Redact(text))
	}
}

// reported is a report with one of each.
func reported(t *testing.T) *Report {
	t.Helper()
	report, err := Run(t.Context(), []Case{
		{ID: "W1.1", Title: "it passes", Level: Must, Run: passes},
		{ID: "W1.2", Title: "it <fails>", Level: Must, Why: "Because <b>.", Source: "the source", Run: func(t *T) {
			t.Note(Frame{Connection: 1, Direction: ToServer, Event: "claim", Text: `["1","2","worker:queue","claim",{"demand":1}]`})
			t.Output("what it wrote", "hello\x01")
			t.Fatalf("a <cat>", "a dog")
		}},
		{ID: "W1.3", Title: "it fails and is no must", Level: Should, Run: fails},
		{ID: "W1.4", Title: "it is not tried", Level: Must, Run: func(t *T) { t.Skipf("no legs") }},
	}, Options{Subject: "worker --x"})
	require.NoError(t, err)
	return report
}

func TestReports(t *testing.T) {
	report := reported(t)
	require.Regexp(t, `^must: 1 passed, 1 failed, 1 not tried; should: 0 passed, 1 failed; `, report.Summary())

	var text bytes.Buffer
	for _, r := range report.Results {
		report.WriteResult(&text, r)
	}
	for _, want := range []string{"passed    W1.1", "failed    W1.2", "expected: a <cat>", "came:     a dog", "why:      Because <b>.", "source:   the source", "not tried: no legs"} {
		require.Contains(t, text.String(), want)
	}

	var encoded bytes.Buffer
	require.NoError(t, report.WriteJSON(&encoded))
	var back Report
	require.NoError(t, json.Unmarshal(encoded.Bytes(), &back))
	require.Equal(t, report.Results, back.Results)

	var page bytes.Buffer
	require.NoError(t, report.WriteHTML(&page))
	for _, want := range []string{"a &lt;cat&gt;", "Because &lt;b&gt;.", "worker:queue", "Not every must of this report", "conformance is not shown", "not tried: no legs", "frames (1)"} {
		require.Contains(t, page.String(), want)
	}
	require.NotContains(t, page.String(), "<cat>")
	require.NotRegexp(t, `(src|href)="[^#]`, page.String(), "it needs no other file")
}

func TestJUnit(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, reported(t).WriteJUnit(&out))
	var suite junit
	require.NoError(t, xml.Unmarshal(out.Bytes(), &suite))
	require.Equal(t, 4, suite.Tests)
	require.Equal(t, 1, suite.Failures, "the must that failed")
	require.Equal(t, 2, suite.Skipped, "the should that failed, and what was not tried")
	require.Equal(t, "expected a <cat>; came: a dog", suite.Cases[1].Failure.Message)
	require.Contains(t, suite.Cases[1].Failure.Text, `{"demand":1}`)
	require.Equal(t, "not tried: no legs", suite.Cases[3].Skipped.Message)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestAReportThatCannotBeWrittenIsAnError(t *testing.T) {
	report := reported(t)
	require.ErrorContains(t, report.WriteJSON(full{}), "as JSON: the disk is full")
	require.ErrorContains(t, report.WriteJUnit(full{}), "as JUnit: the disk is full")
	require.ErrorContains(t, report.WriteHTML(full{}), "as HTML: the disk is full")
}
