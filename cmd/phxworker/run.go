package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker/cmd/phxworker/oneshot"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/cmd/phxworker/workflow"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/runner"
)

func (p *program) runCommand() *cli.Command {
	return &cli.Command{
		Name:  "run",
		Usage: "execute a workflow from a file",
		Flags: append(options.Flags(),
			&cli.StringFlag{Name: "adaptor", Aliases: []string{"a"}}, &cli.StringFlag{Name: "workflow"},
			&cli.StringFlag{Name: "input", Aliases: []string{"i"}}, &cli.StringSliceFlag{Name: "credential"},
			&cli.StringFlag{Name: "start"}, &cli.StringFlag{Name: "end"}, &cli.StringFlag{Name: "only"},
			&cli.BoolFlag{Name: "watch"}, &cli.BoolFlag{Name: "json"},
		),
		CustomHelpTemplate: runHelp,
		HideHelpCommand:    true,
		OnUsageError:       explainUsage,
		ArgValidator:       anyArguments,
		Action:             p.runFile,
	}
}

// reasonError is a run that did not succeed. What there is to say of it has been shown.
type reasonError struct{ reason string }

func (e *reasonError) Error() string { return "the run ended as " + e.reason }

// exitCodes are those of runs that did not succeed, by their reasons.
var exitCodes = map[string]int{
	string(runner.Fail): exitFailure, string(runner.Cancel): exitAborted,
	string(runner.Crash): 5, string(runner.Kill): 6, string(runner.Exception): 7,
}

func (p *program) runFile(ctx context.Context, cmd *cli.Command) error {
	file := cmd.Args().First()
	if cmd.Args().Len() != 1 {
		return &usageError{"say which file to execute, one at a time: phxworker run FILE"}
	}
	if cmd.IsSet("only") && (cmd.IsSet("start") || cmd.IsSet("end")) {
		return &usageError{"--only says both where to start and where to end: leave --start and --end out"}
	}
	if cmd.Bool("watch") && cmd.String("input") == "-" {
		return &usageError{"--input - and --watch exclude each other: standard input is read once"}
	}
	values, err := options.Collect(cmd, p.getenv)
	if err != nil {
		return err
	}
	settings, err := values.Execution()
	if err != nil {
		return err
	}
	logging := settings.Log
	if !cmd.IsSet("log") { // what the worker does is not what whoever writes a job looks for
		logging.Level = slog.LevelWarn
	}
	log := slog.New(logging.Handler(p.stderr, isTerminal(p.stderr)))
	tellNotices(log, settings.Notices)
	engine, err := newEngine(ctx, settings.Engine, settings.Worker.Limits, log)
	if err != nil {
		return err
	}
	defer finish(engine, log)
	session, err := oneshot.Open(engine.runs, settings.Worker.Limits, log)
	if err != nil {
		return err
	}
	defer session.Close()
	once := func(n int) ([]string, error) { return p.executeFile(ctx, cmd, session, file, n) }
	if cmd.Bool("watch") {
		return p.watchFile(ctx, file, once)
	}
	_, err = once(1)
	return err
}

// executeFile reads the file, and executes what is in it, for the n-th time. It returns the files that were read.
func (p *program) executeFile(ctx context.Context, cmd *cli.Command, session *oneshot.Session, file string, n int) ([]string, error) {
	start, end := cmd.String("start"), cmd.String("end")
	if only := cmd.String("only"); only != "" {
		start, end = only, only
	}
	id := fmt.Sprintf("run-%d", n)
	flow, err := workflow.Read(file, workflow.Options{Adaptor: cmd.String("adaptor"), Workflow: cmd.String("workflow"), ID: id, Start: start, End: end})
	files := slices.Concat(flow.Files, given(cmd))
	if err != nil {
		return files, &usageError{err.Error()}
	}
	run := oneshot.Run{ID: id, Plan: flow.Plan}
	if run.Input, err = p.input(cmd, flow.Input); err != nil {
		return files, err
	}
	if run.Credentials, err = credentials(cmd.StringSlice("credential"), flow); err != nil {
		return files, err
	}
	for _, doubt := range slices.Concat(flow.Warnings, session.Doubts(oneshot.Run{Plan: flow.Whole, Credentials: run.Credentials})) {
		fmt.Fprintln(p.stderr, "  !", doubt)
	}
	story := &oneshot.Story{Out: p.stderr, Names: flow.Names, Code: flow.Code, Globals: flow.Globals}
	show := story.Show
	if cmd.Bool("json") {
		lines := json.NewEncoder(p.stdout)
		lines.SetEscapeHTML(false)
		show = func(e mockserver.Event) { _ = lines.Encode(e) } // who reads it may be gone
	}
	record, err := session.Execute(ctx, run, show)
	if err != nil {
		if refused, ok := errors.AsType[*mockserver.InvalidError](err); ok {
			return files, &usageError{file + ": " + refused.Error()}
		}
		return files, err
	}
	if !cmd.Bool("json") {
		if err := printState(p.stdout, record.FinalState); err != nil {
			return files, err
		}
	}
	if found := undefined.FindStringSubmatch(record.ErrorMessage); found != nil && workflow.IsJob(file) && !cmd.IsSet("adaptor") {
		fmt.Fprintf(p.stderr, "  if %s() is an operation of another adaptor than @openfn/language-common, name that, as in --adaptor http\n", found[1])
	}
	if record.Reason != string(runner.Success) {
		return files, &logged{&reasonError{record.Reason}}
	}
	return files, nil
}

// undefined matches the error of a name that is nobody's.
var undefined = regexp.MustCompile(`^(?:ReferenceError: )?(\w+) is not defined`)

// given are the files that the command line names besides the workflow.
func given(cmd *cli.Command) (files []string) {
	if input := cmd.String("input"); input != "" && input != "-" {
		files = append(files, input)
	}
	for _, text := range cmd.StringSlice("credential") {
		if _, file, ok := strings.Cut(text, "="); ok {
			files = append(files, file)
		}
	}
	return files
}

// printState prints a final state for people and programs, with its numbers as they are; nothing if
// the run has none.
func printState(out io.Writer, state json.RawMessage) error {
	if len(state) == 0 {
		return nil
	}
	var text bytes.Buffer
	if err := json.Indent(&text, state, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, text.String())
	return err
}

// input returns the run's dataclip: that of the command line, or else of the file.
func (p *program) input(cmd *cli.Command, ofFile json.RawMessage) (json.RawMessage, error) {
	name := cmd.String("input")
	if name == "" {
		return ofFile, nil
	}
	read := func() ([]byte, error) { return os.ReadFile(name) } //nolint:gosec // the file that a person names
	if name == "-" {
		read = func() ([]byte, error) { return io.ReadAll(os.Stdin) }
	}
	data, err := read()
	if err != nil {
		return nil, &usageError{fmt.Sprintf("--input cannot be read: %v", err)}
	}
	if !json.Valid(data) {
		return nil, &usageError{fmt.Sprintf("--input %s %s", name, lightning.Syntax(data))}
	}
	return data, nil
}

// credentials returns the bodies of those that the jobs name, from the file or the command line.
func credentials(given []string, flow *workflow.Workflow) (map[string]json.RawMessage, error) {
	all := make(map[string]json.RawMessage)
	maps.Copy(all, flow.Credentials)
	for _, text := range given {
		name, file, ok := strings.Cut(text, "=")
		if !ok {
			return nil, &usageError{"--credential has no file: write --credential NAME=FILE"}
		}
		body, err := os.ReadFile(file) //nolint:gosec // the file that a person names
		if err != nil {
			return nil, &usageError{fmt.Sprintf("--credential %s cannot be read: %v", name, err)}
		}
		if !json.Valid(body) {
			return nil, &usageError{fmt.Sprintf("--credential %s: %s %s", name, file, lightning.Syntax(body))}
		}
		if flow.Needs[name] == "" && flow.Spare[name] == "" {
			return nil, &usageError{fmt.Sprintf("--credential %s: no step names it; they name %s", name, named(flow.Needs, flow.Spare))}
		}
		all[name] = body
	}
	for name := range flow.Spare {
		if all[name] == nil { // the worker fetches those of all jobs before it begins
			all[name] = json.RawMessage("{}")
		}
	}
	for name, job := range flow.Needs {
		if all[name] == nil {
			return nil, &usageError{fmt.Sprintf("the step %q needs the credential %q: give it with --credential '%s=FILE'", flow.Names[job], name, name)}
		}
	}
	return all, nil
}

func named(needs, spare map[string]string) string {
	names := slices.Concat(slices.Collect(maps.Keys(needs)), slices.Collect(maps.Keys(spare)))
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// look is how often files are looked at. A save is seen sooner than a person can look up.
const look = 30 * time.Millisecond

// watchFile executes the file each time that one of those it consists of changes, until ctx ends.
func (p *program) watchFile(ctx context.Context, file string, once func(n int) ([]string, error)) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	known := []string{file}
	for n := 1; ; n++ {
		before := stamps(known) // what is saved while it is executed counts
		files, err := once(n)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.As(err, new(*logged)) {
			fmt.Fprintln(p.stderr, "phxworker:", problem(err))
		}
		known = slices.Concat(files, []string{file})
		now := stamps(known)
		maps.Copy(now, before)
		fmt.Fprintf(p.stderr, "— again when %s changes; Ctrl+C ends it\n", listed(known))
		for maps.Equal(now, stamps(slices.Collect(maps.Keys(now)))) {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
		awaitSaves(ctx, ticker.C, now)
	}
}

// listed names files for people, each once, and no folders.
func listed(files []string) string {
	var names []string
	for i, file := range files {
		if info, err := os.Stat(file); err == nil && info.IsDir() || slices.Contains(files[:i], file) {
			continue
		}
		names = append(names, filepath.Base(file))
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}

const (
	// fresh is how long ago a file was written that may not be whole yet.
	fresh = 5 * time.Millisecond
	// mostLooks is how often a file is looked at that stays as it is in the middle of a save: it is meant so.
	mostLooks = 10
)

// awaitSaves waits as long as one of the known files is in the middle of a save: many editors empty a file, or move it
// away, before they write it. It looks again with each value of looks.
func awaitSaves(ctx context.Context, looks <-chan time.Time, known map[string]string) {
	for range mostLooks {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(known)), func(file string) bool { return torn(file, known[file]) }) {
			return
		}
		select {
		case <-looks:
		case <-ctx.Done():
			return
		}
	}
}

// torn reports whether a file is in the middle of a save; before is its stamp of before.
func torn(file, before string) bool {
	info, err := os.Stat(file)
	if err != nil {
		return before != ""
	}
	return info.Size() == 0 || time.Since(info.ModTime()).Abs() < fresh
}

// stamps returns what changes when a file does, by file.
func stamps(files []string) map[string]string {
	all := make(map[string]string, len(files))
	for _, file := range files {
		all[file] = "" // it is not there
		if info, err := os.Stat(file); err == nil {
			all[file] = fmt.Sprint(info.Size(), info.ModTime())
		}
	}
	return all
}

const runHelp = `phxworker run executes a workflow from a file, with no server and no secret, by the
same worker and engines as in production. How it goes is told on standard error, its
final state is printed on standard output.

Usage: phxworker run FILE [options]

FILE is a job (.js), a plan (.json), a workflow or project as OpenFn's tools keep it
(.yaml, .json), or a folder with one.

Options, besides those of "phxworker start" for engines, limits and logs:
  --adaptor NAME, -a NAME
      the adaptor of a job alone, such as http or @openfn/language-http@7.2.10;
      default @openfn/language-common
  --workflow NAME
      which workflow of a project
  --input FILE, -i FILE
      the input of the run, as JSON; - is standard input
  --credential NAME=FILE
      what the steps that name this credential log in with, as JSON; once for each
  --start STEP, --end STEP, --only STEP
      where to begin, and to go no further than, by id or name
  --watch
      execute it again whenever one of its files changes, or of those named here
  --json
      print the events of the run, one in a line, and not its final state

Exit codes: 0 for success, 1 for fail, 2 for options or files that it cannot work with,
3 for a run that was cancelled, 5 for crash, 6 for kill, 7 for exception.
`
