package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/phxworker/phxworker/examples"
	"github.com/phxworker/phxworker/mockserver"
)

// OutcomeError tells which runs did not end as they should.
type OutcomeError struct {
	Runs  []string // one text a run: its name, how it ended, and how it should have
	Total int      // how many runs there were
}

func (e *OutcomeError) Error() string {
	return fmt.Sprintf("%d of %d runs did not end as they should: %s", len(e.Runs), e.Total, strings.Join(e.Runs, "; "))
}

// check returns an [*OutcomeError] unless every run ended as its example says.
func check(final snapshot) error {
	var wrong []string
	for _, r := range final.runs {
		want := r.example.Expect
		got := examples.Expectation{Reason: r.record.Reason, ErrorType: r.record.ErrorType}
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s (%s instead of %s)", r.example.Name, outcome(got), outcome(want)))
		}
	}
	if wrong != nil {
		return &OutcomeError{Runs: wrong, Total: len(final.runs)}
	}
	return nil
}

func outcome(e examples.Expectation) string {
	if e.ErrorType == "" {
		return e.Reason
	}
	return e.Reason + ", " + e.ErrorType
}

// width is that of a terminal nobody has made larger, and of what is none.
const width = 80

// printReport writes the closing table, and under it what went wrong in the runs.
func printReport(out io.Writer, columns int, final snapshot, group map[string]string, took time.Duration) {
	var rows, failures [][]string
	for _, r := range final.runs {
		name := r.example.Name
		if !r.ended() {
			rows = append(rows, []string{name, r.record.Queue, group[name], string(r.record.State), "", ""})
			continue
		}
		rows = append(rows, []string{name, r.record.Queue, group[name], r.record.Reason, short(r.waited()), short(r.took())})
		if failure := r.failure(); failure != "" {
			failures = append(failures, []string{name, cut(failure, columns-len("  ")-longestName(final))})
		}
	}
	titles := []column{{title: "run"}, {title: "queue"}, {title: "group"}, {title: "reason"}, {"waited", true}, {"took", true}}
	fmt.Fprint(out, "\n", table(titles, rows), "\n")
	if failures != nil {
		fmt.Fprint(out, table([]column{{title: "run"}, {title: "what went wrong"}}, failures), "\n")
	}
	if check(final) == nil {
		fmt.Fprintf(out, "%d runs in %s. All ended as their examples say they should.\n", len(final.runs), short(took))
	}
}

func longestName(final snapshot) int {
	n := 0
	for _, r := range final.runs {
		n = max(n, utf8.RuneCountInString(r.example.Name))
	}
	return n
}

// printAddresses says what can be done with a demo that stays up.
func printAddresses(out io.Writer, server *mockserver.Server) {
	const plan = `{"jobs":[{"id":"a","adaptor":"@openfn/language-common@latest","body":"fn(s => ({ ...s, data: 6 * 7 }))"}]}`
	fmt.Fprintf(out, `
Still up, until ctrl-C. Queue a run, and look at what became of it:
  curl '%[1]s/run?queue=manual' -d '%[2]s'
  curl %[1]s/run/ID
  curl %[1]s/stats
For another worker:
  phxworker start --lightning %[3]s --secret %[4]s
`, server.HTTPURL(), plan, server.URL(), server.Secret())
}
