package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/web"
)

// status shows a worker, and fails if it is not ready.
func (p *program) status(ctx context.Context, cmd *cli.Command) error {
	worker, err := p.remote(ctx, cmd)
	if err != nil {
		return err
	}
	body, err := worker.fetch(ctx, http.MethodGet, "/status", nil)
	if err != nil {
		return err
	}
	var status web.Status
	if err := json.Unmarshal(body, &status); err != nil || status.Phase == "" {
		return worker.stranger(http.StatusOK)
	}
	if cmd.Bool("json") {
		_, err = fmt.Fprintln(p.stdout, strings.TrimSpace(string(body)))
	} else {
		err = writeStatus(p.stdout, &status)
	}
	if err == nil && !status.Ready {
		err = errors.New("not ready: " + printable(status.NotReady))
	}
	return err
}

const shownResults = 5

// writeStatus writes what fits the terminal.
func writeStatus(w io.Writer, s *web.Status) error {
	var text bytes.Buffer
	fmt.Fprintln(&text, s.Summary)
	if s.Connection.Error != "" {
		fmt.Fprintln(&text, s.Connection.Error)
	}
	commit := ""
	if s.Process.Commit != "" {
		commit = " (" + s.Process.Commit + ")"
	}
	fmt.Fprintf(&text, "%s%s on %s, process %d, up %s\n\n", s.Process.Version, commit, s.Process.Hostname, s.Process.PID, s.Process.Uptime)
	writeGroups(&text, s.Groups)
	if len(s.Runs) > 0 {
		fmt.Fprintln(&text)
		writeRuns(&text, s.Runs)
	}
	if len(s.Results) > 0 {
		fmt.Fprintln(&text)
		writeResults(&text, s.Results[:min(shownResults, len(s.Results))], screen(w))
	}
	if all := total(s); all != "" {
		fmt.Fprintln(&text, all)
	}
	return writeLines(w, text.String())
}

// writeResults writes how runs ended. Where that is too much for the screen, the reasons are cut: the times come after them.
func writeResults(w io.Writer, results []phxworker.RunResult, screen int) {
	widest := func(cell func(phxworker.RunResult) string) (most int) {
		for _, result := range results {
			most = max(most, utf8.RuneCountInString(cell(result)))
		}
		return most
	}
	id := func(r phxworker.RunResult) string { return identifier(r.RunID) }
	took := func(r phxworker.RunResult) string { return fmt.Sprint(r.Lasted) }
	room := screen - max(widest(id), len("ENDED")) - max(widest(took), len("TOOK")) - len(time.TimeOnly) - len("  ")*3
	table := newTable(w)
	fmt.Fprintln(table, "ENDED\tREASON\tTOOK\tAT")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", id(r), cut(printable(web.Ending(r)), room), took(r), r.Ended.Local().Format(time.TimeOnly))
	}
	_ = table.Flush()
}

// total is how all runs since the start have ended, empty if there is none.
func total(s *web.Status) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(s.Ended)) {
		parts = append(parts, fmt.Sprintf("%d %s", s.Ended[reason], reason))
	}
	if s.Returned > 0 {
		parts = append(parts, fmt.Sprintf("%d returned to the queue", s.Returned))
	}
	if s.Undelivered > 0 {
		parts = append(parts, fmt.Sprintf("server not told of %d", s.Undelivered))
	}
	if len(parts) == 0 {
		return ""
	}
	return "in all: " + strings.Join(parts, ", ")
}

func (p *program) showGroups(groups []phxworker.GroupStats, err error) error {
	if err != nil {
		return err
	}
	var text bytes.Buffer
	writeGroups(&text, groups)
	return writeLines(p.stdout, text.String())
}

func writeGroups(w io.Writer, groups []phxworker.GroupStats) {
	table := newTable(w)
	fmt.Fprintln(table, "GROUP\tSLOTS\tRUNNING\tASKING\tOPEN\tCLAIMS\tFAILED\t")
	for _, g := range groups {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", printable(g.Name), g.Size, g.Running, g.Claimed, g.Open, g.Claims.Total(), g.Claims.Failed, web.Remark(g))
	}
	_ = table.Flush()
	for _, g := range groups {
		if note := web.Note(g); note != "" {
			fmt.Fprintf(w, "%s: %s\n", printable(g.Name), note)
		}
	}
}

// writeRuns writes a table with a line below each row for what the run does. These
// are put in when the table is done: a line without columns would end them.
func writeRuns(w io.Writer, runs []phxworker.RunStats) {
	var rows bytes.Buffer
	table := newTable(&rows)
	fmt.Fprintln(table, "UNDER WAY\tGROUP\tAGE")
	for _, run := range runs {
		fmt.Fprintf(table, "%s\t%s\t%s\n", identifier(run.RunID), printable(run.Group), run.Age)
	}
	_ = table.Flush()
	head, rest, _ := strings.Cut(rows.String(), "\n")
	fmt.Fprintln(w, head)
	for _, run := range runs {
		head, rest, _ = strings.Cut(rest, "\n")
		fmt.Fprintf(w, "%s\n  %s\n", head, printable(web.Doing(run)))
	}
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// writeLines writes the text without what ends beyond the terminal, if it is one, but for
// sentences, which come first and wrap.
func writeLines(w io.Writer, text string) error {
	var out strings.Builder
	sentences, most := true, screen(w)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		sentences = sentences && line != ""
		if !sentences {
			line = cut(line, most)
		}
		out.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// screen returns how many columns a line may have: those of a terminal, and any number elsewhere, where a program reads it.
func screen(w io.Writer) int {
	if isTerminal(w) {
		return columns(w)
	}
	return math.MaxInt
}

// identifier returns the id of a run as a column takes it; those of Lightning have
// 36 characters.
func identifier(id string) string {
	return cut(printable(id), 36)
}

// cut returns as much of a text as there are columns for.
func cut(text string, columns int) string {
	if runes := []rune(text); len(runes) > columns {
		return string(runes[:columns-1]) + "…"
	}
	return text
}

// printable keeps what a server has named from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}
