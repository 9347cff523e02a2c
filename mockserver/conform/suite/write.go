package suite

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteResult writes a result as a person at a terminal reads it: one line, and for a failure what
// was expected, what came, and why it matters.
func (r *Report) WriteResult(w io.Writer, result Result) {
	fmt.Fprintf(w, "%-9s %-6s %-6s %s (%s)\n", result.Verdict, result.ID, result.Level, result.Title, result.Took.Round(time.Millisecond))
	switch {
	case result.Verdict == NotTried:
		fmt.Fprintf(w, "          not tried: %s\n", result.Reason)
	case result.Verdict == Passed && result.Expected:
		fmt.Fprintf(w, "          it is among the expected failures, and passes: take it out\n")
	case result.Verdict == Failed:
		if result.Expected {
			fmt.Fprintf(w, "          as expected\n")
		}
		for _, f := range result.Failures {
			fmt.Fprintf(w, "          expected: %s\n          came:     %s\n", f.Expected, f.Came)
		}
		fmt.Fprintf(w, "          why:      %s\n          source:   %s\n", result.Why, result.Source)
	}
}

// Text is what [Report.WriteResult] writes, and the frames and outputs behind a failure.
func (r *Report) Text(result Result) string {
	var b strings.Builder
	r.WriteResult(&b, result)
	return b.String() + evidence(result)
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write the report as JSON: %w", err)
	}
	return nil
}

// junit is the format that CI systems read.
type junit struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Began    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *junitSkipped `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

// WriteJUnit writes the report as JUnit's XML. What is not red there is no failure: one that is expected,
// or of a should without a baseline, is skipped, and says so.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junit{
		Name: "phxconform " + r.Subject, Tests: len(r.Results), Time: seconds(r.Took),
		Began: r.Began.UTC().Format("2006-01-02T15:04:05"),
	}
	for _, result := range r.Results {
		c := junitCase{Name: result.ID + " " + result.Title, Class: "phxconform." + string(result.Level), Time: seconds(result.Took)}
		switch {
		case r.Red(result):
			suite.Failures++
			c.Failure = &junitFailure{Message: firstLine(result), Text: xmlText(failureText(result))}
		case result.Verdict != Passed:
			suite.Skipped++
			c.Skipped = &junitSkipped{Message: firstLine(result)}
			c.Output = xmlText(failureText(result))
		}
		suite.Cases = append(suite.Cases, c)
	}
	_, err := io.WriteString(w, xml.Header)
	if err == nil {
		enc := xml.NewEncoder(w)
		enc.Indent("", "  ")
		err = enc.Encode(suite)
	}
	if err != nil {
		return fmt.Errorf("write the report as JUnit: %w", err)
	}
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// firstLine says in a line why a case is not simply green.
func firstLine(r Result) string {
	switch {
	case r.Verdict == NotTried:
		return xmlText("not tried: " + r.Reason)
	case r.Verdict == Passed:
		return "it is among the expected failures, and passes: take it out"
	case r.Expected:
		return xmlText("failed, as expected: " + r.Failures[0].String())
	default:
		return xmlText(r.Failures[0].String())
	}
}

func failureText(r Result) string {
	if r.Verdict != Failed {
		return ""
	}
	var b strings.Builder
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "expected: %s\ncame:     %s\n", f.Expected, f.Came)
	}
	fmt.Fprintf(&b, "why:      %s\nsource:   %s\n\n", r.Why, r.Source)
	return b.String() + evidence(r)
}

// evidence is what was seen of a case that failed.
func evidence(r Result) string {
	if r.Verdict != Failed {
		return ""
	}
	var b strings.Builder
	for _, f := range r.Frames {
		fmt.Fprintf(&b, "%10s  %d %s  %s\n", f.After.Round(time.Millisecond), f.Connection, arrow(f.Direction), f.Text)
	}
	for _, o := range r.Outputs {
		fmt.Fprintf(&b, "\n%s:\n%s\n", o.Name, o.Text)
	}
	return b.String()
}

func arrow(d Direction) string {
	if d == ToServer {
		return "→"
	}
	return "←"
}

// xmlText leaves out what XML cannot hold.
func xmlText(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r >= 0x20 && r != 0xfffe && r != 0xffff {
			return r
		}
		return '�'
	}, text)
}
