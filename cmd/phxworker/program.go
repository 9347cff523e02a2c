package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
)

// program is the process as its commands see it.
type program struct {
	getenv         func(string) string
	stdout, stderr io.Writer
	// abort ends at the second signal, when runs are no longer waited for.
	abort context.Context
}

// The exit codes.
const (
	exitOK = iota
	exitFailure
	exitUsage
	exitAborted // runs were cancelled
	exitAtOnce  // nothing was waited for
)

// usageError is bad input: nothing was begun.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem }

// run executes the command line until it is done or ctx ends, and returns the
// exit code. An error is one line on stderr.
func (p *program) run(ctx context.Context, args []string) int {
	err := p.root().Run(ctx, options.Normalize(args))
	if err == nil {
		return exitOK
	}
	// Errors of the root package begin with the name of the program already.
	fmt.Fprintln(p.stderr, "phxworker:", strings.TrimPrefix(err.Error(), "phxworker: "))
	switch {
	case errors.As(err, new(*usageError)), errors.As(err, new(*options.Error)):
		return exitUsage
	case errors.Is(err, phxworker.ErrAborted):
		return exitAborted
	}
	return exitFailure
}

func (p *program) root() *cli.Command {
	return &cli.Command{
		Name:                          "phxworker",
		Version:                       phxworker.Version(),
		DefaultCommand:                "start",
		Commands:                      []*cli.Command{p.startCommand(), p.demoCommand(), p.spoolCommand()},
		CustomRootCommandHelpTemplate: rootHelp,
		HideHelpCommand:               true,
		OnUsageError:                  explainUsage,
		Writer:                        p.stdout,
		ErrWriter:                     p.stderr,
		// run alone prints errors and chooses exit codes.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
	}
}

// explainUsage words the parser's complaints for people.
func explainUsage(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	help := "; see " + cmd.FullName() + " --help"
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return &usageError{err.Error() + help}
	}
	dashes := "--"
	if len(name) == 1 {
		dashes = "-"
	}
	return &usageError{fmt.Sprintf("unknown option %s%s%s", dashes, name, help)}
}

// noArguments refuses words that are no options.
func noArguments(_ context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return &usageError{fmt.Sprintf("unknown command or argument %q; see phxworker --help", cmd.Args().First())}
	}
	return nil
}
