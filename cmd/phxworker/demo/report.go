package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
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
func printReport(out io.Writer, columns int, final snapshot, took time.Duration) {
	runs := [][]string{{"RUN", "QUEUE", "GROUP", "REASON", "WAITED", "TOOK"}}
	failures := [][]string{{"RUN", "WHAT WENT WRONG"}}
	for _, r := range final.runs {
		name := r.example.Name
		if !r.ended() {
			runs = append(runs, []string{name, r.record.Queue, r.record.Group, string(r.record.State)})
			continue
		}
		runs = append(runs, []string{name, r.record.Queue, r.record.Group, r.record.Reason, short(r.waited()), short(r.took())})
		if failure := r.failure(); failure != "" {
			failures = append(failures, []string{name, cut(failure, columns-len("  ")-longestName(final))})
		}
	}
	fmt.Fprintln(out)
	printTable(out, runs)
	if len(failures) > 1 {
		printTable(out, failures)
	}
	if check(final) == nil {
		fmt.Fprintf(out, "%d runs in %s. All ended as their examples say they should.\n", len(final.runs), short(took))
	}
}

// printTable lays rows out in columns, the first row their titles, with an empty line behind them.
func printTable(out io.Writer, rows [][]string) {
	table := tabwriter.NewWriter(out, 0, 0, len("  "), ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	fmt.Fprintln(table)
	_ = table.Flush() // nobody is there to tell when a person cannot be told
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

// short writes a time with the precision that a person cares for.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// oneLine joins the lines of a text.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// cut shortens a text to so many characters.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
