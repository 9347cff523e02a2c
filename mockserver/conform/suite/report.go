package suite

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Verdict is what became of a case.
type Verdict string

// The verdicts.
const (
	Passed   Verdict = "passed"
	Failed   Verdict = "failed"
	NotTried Verdict = "not tried"
)

// Result is what is known of a case.
type Result struct {
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Level   Level   `json:"level"`
	Why     string  `json:"why"`
	Source  string  `json:"source"`
	Verdict Verdict `json:"verdict"`
	// Reason is why it was not tried.
	Reason   string    `json:"reason,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
	// Expected says that the baseline has it as a failure.
	Expected bool          `json:"expected_failure,omitempty"`
	Took     time.Duration `json:"took_ns"`
	Frames   []Frame       `json:"frames,omitempty"`
	Outputs  []Output      `json:"outputs,omitempty"`
}

func newResult(c Case) Result {
	return Result{ID: c.ID, Title: c.Title, Level: c.Level, Why: c.Why, Source: c.Source}
}

// Report is what is known of a subject.
type Report struct {
	Subject string        `json:"subject"`
	Spec    Spec          `json:"spec"`
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took_ns"`
	// Baseline says that there is a list of expected failures.
	Baseline bool     `json:"baseline"`
	Results  []Result `json:"results"`
	// OtherSpec are the ids of cases that were asked for one by one, and are for another Lightning: they
	// have no result, and do not count.
	OtherSpec []string `json:"other_spec,omitempty"`
}

// Red reports whether a result of this report makes the whole fail. Without a baseline that is a must
// that failed; with one it is each failure that is not in it, and each pass that is.
func (r *Report) Red(result Result) bool {
	failed := result.Verdict == Failed
	switch {
	case r.Baseline && result.Expected:
		return result.Verdict == Passed
	case r.Baseline:
		return failed
	default:
		return failed && result.Level == Must
	}
}

// RedResults returns the results that make the whole fail.
func (r *Report) RedResults() []Result {
	var red []Result
	for _, result := range r.Results {
		if r.Red(result) {
			red = append(red, result)
		}
	}
	return red
}

// Count returns how many cases of a level have a verdict; an empty level is any.
func (r *Report) Count(l Level, v Verdict) int {
	n := 0
	for _, result := range r.Results {
		if (l == "" || result.Level == l) && result.Verdict == v {
			n++
		}
	}
	return n
}

// HasMust reports whether there is a must in the report: without one it shows nothing of conformance.
func (r *Report) HasMust() bool {
	return slices.ContainsFunc(r.Results, func(result Result) bool { return result.Level == Must })
}

// Shown reports whether every must of the report was tried and has passed, and there is one.
func (r *Report) Shown() bool {
	return r.HasMust() && r.Count(Must, Failed)+r.Count(Must, NotTried) == 0
}

// Summary is one line for a person.
func (r *Report) Summary() string {
	var parts []string
	for _, l := range []Level{Must, Should, May} {
		passed, failed, untried := r.Count(l, Passed), r.Count(l, Failed), r.Count(l, NotTried)
		if passed+failed+untried == 0 {
			continue
		}
		part := fmt.Sprintf("%s: %d passed", l, passed)
		if failed > 0 {
			part += fmt.Sprintf(", %d failed", failed)
		}
		if untried > 0 {
			part += fmt.Sprintf(", %d not tried", untried)
		}
		parts = append(parts, part)
	}
	if len(r.OtherSpec) > 0 {
		parts = append(parts, fmt.Sprintf("not for Lightning %s: %s", r.Spec, strings.Join(r.OtherSpec, ", ")))
	}
	return strings.Join(append(parts, r.Took.Round(time.Millisecond).String()), "; ")
}

// ReadExpected reads a baseline: one id a line; what is behind a # is for people. It is never nil
// without an error.
func ReadExpected(r io.Reader) ([]string, error) {
	ids := []string{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "\ufeff"), "#") // Windows' editors begin a file so
		switch words := strings.Fields(line); len(words) {
		case 0:
		case 1:
			ids = append(ids, words[0])
		default:
			return nil, fmt.Errorf("line %d of the expected failures is not one id, and a reason behind a #: %q", n, lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the expected failures: %w", err)
	}
	return ids, nil
}
