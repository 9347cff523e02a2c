package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// output is what all modes have in common: which cases, and where their results go.
type output struct{ stdout, stderr io.Writer }

// words are what the flags' usage says of a mode.
type words struct{ cases, parallel, patience string }

func outputFlags(say words) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "list", Usage: "list the cases, and try none"},
		&cli.StringSliceFlag{Name: "case", Usage: "try the case with this `ID` only, or those that begin with it: " + say.cases + "; may be repeated"},
		&cli.StringFlag{Name: "spec", Usage: "the `VERSION` of Lightning: 2.15, or 2.19 for that and later", Value: string(suite.Spec219)},
		&cli.BoolFlag{Name: "slow", Usage: "try the cases as well that wait for a minute and more"},
		&cli.IntFlag{Name: "parallel", Usage: "how `MANY` cases to try side by side" + say.parallel, Value: 4},
		&cli.IntFlag{Name: "patience", Usage: "give each case so many `TIMES` its time, a whole number: " + say.patience, Value: 1},
		&cli.StringFlag{Name: "json", Usage: "write the report as JSON into `FILE`"},
		&cli.StringFlag{Name: "junit", Usage: "write the report as JUnit's XML into `FILE`"},
		&cli.StringFlag{Name: "html", Usage: "write the report as one page into `FILE`, with the frames of each failed case"},
		&cli.StringFlag{Name: "expected-failures", Usage: "a `FILE` with the ids of cases that are known to fail, one a line: other failures are red, whatever their level, and so are passes of these"},
	}
}

// fileFlags are those of the reports.
var fileFlags = []string{"json", "junit", "html"}

// checkFiles refuses names that are none of a file, and one for two reports.
func checkFiles(cmd *cli.Command) error {
	reportOf := map[string]string{}
	for _, flag := range fileFlags {
		name := cmd.String(flag)
		switch {
		case !cmd.IsSet(flag):
			continue
		case cmd.Bool("list"):
			return fmt.Errorf("--list tries no case, so there is no report for --%s: leave one of them out", flag)
		case name == "":
			return fmt.Errorf("--%s needs the name of a file", flag)
		case name == "-":
			return fmt.Errorf("--%s writes into a file, and not to stdout: name one", flag)
		case strings.HasPrefix(name, "-"):
			return fmt.Errorf("--%s needs the name of a file, and %q looks like an option: a file of that name is ./%s", flag, name, name)
		}
		name = filepath.Clean(name)
		if other, taken := reportOf[name]; taken {
			return fmt.Errorf("--%s and --%s would write into the same file: %s", other, flag, name)
		}
		reportOf[name] = flag
	}
	return nil
}

// options reads the flags of [outputFlags].
func options(cmd *cli.Command) (o suite.Options, err error) {
	if err = checkFiles(cmd); err != nil {
		return o, usageError{err}
	}
	if o.Spec, err = suite.ParseSpec(cmd.String("spec")); err != nil {
		return o, usageError{fmt.Errorf("--spec: %w", err)}
	}
	if o.Parallel = cmd.Int("parallel"); o.Parallel < 1 {
		return o, usageError{errors.New("--parallel must be at least 1")}
	}
	if o.Patience = cmd.Int("patience"); o.Patience < 1 {
		return o, usageError{errors.New("--patience must be at least 1")}
	}
	o.Cases, o.Slow = cmd.StringSlice("case"), cmd.Bool("slow")
	if name := cmd.String("expected-failures"); name != "" {
		if o.Expected, err = readExpected(name); err != nil {
			return o, usageError{fmt.Errorf("--expected-failures: %w", err)}
		}
	}
	return o, nil
}

func readExpected(name string) ([]string, error) {
	f, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return suite.ReadExpected(f)
}

// list writes a line for each case, and its sentence of why.
func (out output) list(cases []suite.Case, patterns []string) error {
	selected, err := suite.Select(cases, patterns)
	if err != nil {
		return usageError{err}
	}
	for _, c := range selected {
		slow, only := "", ""
		if c.Slow {
			slow = ", slow"
		}
		if len(c.Specs) == 1 {
			only = fmt.Sprintf(", %s only", c.Specs[0])
		}
		fmt.Fprintf(out.stdout, "%-6s %-6s %s%s%s\n       %s\n       (%s)\n", c.ID, c.Level, c.Title, slow, only, c.Why, c.Source)
	}
	return nil
}

// try tries the cases, tells of each, and writes the reports that the flags name.
func (out output) try(ctx context.Context, cmd *cli.Command, cases []suite.Case, o suite.Options) error {
	baseline := suite.Report{Baseline: o.Expected != nil}
	ends := newTails(out.stdout)
	o.Progress = func(r suite.Result) {
		baseline.WriteResult(out.stdout, r)
		ends.write(r)
	}
	report, err := suite.Run(ctx, cases, o)
	if err != nil {
		return usageError{err}
	}
	fmt.Fprintln(out.stdout, report.Summary())
	if report.Count("", suite.Failed) > 0 && !cmd.IsSet("html") {
		fmt.Fprintln(out.stdout, "With --html FILE there is a page with the frames of each case that failed, and all that the subject wrote.")
	}
	if err := writeReports(cmd, report); err != nil {
		return err
	}
	switch red := report.RedResults(); {
	case len(red) > 0:
		return redError{fmt.Errorf("%d of %d cases are red: %s", len(red), len(report.Results), ids(red))}
	case ctx.Err() != nil:
		return fmt.Errorf("%w: the cases were not all tried", context.Cause(ctx))
	case report.Count("", suite.NotTried) == len(report.Results):
		return errors.New("no case was tried")
	case report.Shown():
		fmt.Fprintln(out.stdout, "Every must that was selected was tried and has passed.")
	case report.HasMust():
		fmt.Fprintln(out.stdout, "Nothing is red. It is not shown that the subject conforms, for not every must was tried and has passed.")
	default:
		fmt.Fprintln(out.stdout, "Nothing is red. It is not shown that the subject conforms, for no must was selected.")
	}
	return nil
}

func ids(results []suite.Result) string {
	all := make([]string, len(results))
	for i, r := range results {
		all[i] = r.ID
	}
	return strings.Join(all, ", ")
}

// writeReports writes each report that a flag names, also when another cannot be written.
func writeReports(cmd *cli.Command, report *suite.Report) (err error) {
	for flag, write := range map[string]func(io.Writer) error{
		"json": report.WriteJSON, "junit": report.WriteJUnit, "html": report.WriteHTML,
	} {
		if name := cmd.String(flag); name != "" {
			if problem := writeFile(name, write); problem != nil {
				err = errors.Join(err, fmt.Errorf("--%s: %w", flag, problem))
			}
		}
	}
	return err
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name) //nolint:gosec // the user names it
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
