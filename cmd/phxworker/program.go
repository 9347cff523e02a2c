package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/build"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
)

// program is the process as its commands see it.
type program struct {
	getenv         func(string) string
	environ        []string // "NAME=value"
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

// logged is an error that is in the log, and is not told once more.
type logged struct{ error }

func (e *logged) Unwrap() error { return e.error }

// problem returns what an error says after the name of the program, with which
// those of the root package begin.
func problem(err error) string { return strings.TrimPrefix(err.Error(), "phxworker: ") }

// run executes the command line until it is done or ctx ends, and returns the
// exit code. An error is one line on stderr, or one of the log.
func (p *program) run(ctx context.Context, args []string) int {
	args, err := options.Normalize(args)
	if err == nil {
		err = p.root().Run(ctx, args)
	}
	if err == nil {
		return exitOK
	}
	if !errors.As(err, new(*logged)) {
		fmt.Fprintln(p.stderr, "phxworker:", problem(err))
	}
	return exitCode(err)
}

// exitCode returns what the program ends with for an error.
func exitCode(err error) int {
	if ended, ok := errors.AsType[*reasonError](err); ok {
		return cmp.Or(exitCodes[ended.reason], exitFailure) // "lost" has none of its own
	}
	switch {
	case errors.As(err, new(*usageError)), errors.As(err, new(*options.Error)), errors.Is(err, phxworker.ErrUnable):
		return exitUsage
	case errors.Is(err, phxworker.ErrAborted):
		return exitAborted
	}
	return exitFailure
}

func (p *program) root() *cli.Command {
	return &cli.Command{
		Name:           "phxworker",
		Version:        build.Read().String(),
		DefaultCommand: "start",
		Commands: append(
			[]*cli.Command{
				p.startCommand(), p.configCommand(), p.runCommand(), p.demoCommand(), p.spoolCommand(), p.adaptorsCommand(),
				p.helpCommand(), p.versionCommand(),
			},
			p.controlCommands()...,
		),
		CustomRootCommandHelpTemplate: rootHelp,
		HideHelpCommand:               true,
		OnUsageError:                  explainUsage,
		Writer:                        p.stdout,
		ErrWriter:                     p.stderr,
		// run alone prints errors and chooses exit codes.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
	}
}

// unknownCommand says that a word is none of the commands that could stand there.
func unknownCommand(cmd *cli.Command, word string) error {
	choices := cmd.Commands
	if cmd.Name == cmd.Root().DefaultCommand { // it need not be named
		choices = cmd.Root().Commands
	}
	var names []string
	for _, choice := range choices {
		names = append(names, choice.Name)
	}
	problem := fmt.Sprintf("unknown command or argument %q", word)
	switch meant := options.Closest(word, names); meant {
	case "":
		problem += ";"
	case word: // behind options, which made the command start
		problem = fmt.Sprintf("the command comes first: write phxworker %s, and options behind it;", word)
	default:
		problem += fmt.Sprintf(": did you mean %s?", meant)
	}
	return &usageError{problem + " see phxworker --help"}
}

// explainUsage words the parser's complaints for people.
func explainUsage(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	help := "see " + cmd.FullName() + " --help"
	if name, missing := strings.CutPrefix(err.Error(), "flag needs an argument: "); missing {
		return &usageError{fmt.Sprintf("%s has no value; %s", name, help)}
	}
	if _, names, both := strings.Cut(err.Error(), "cannot set both flags "); both {
		return &usageError{strings.ReplaceAll(names, "`", "") + " exclude each other: keep one of them"}
	}
	if wrong, ok := strings.CutPrefix(err.Error(), "invalid value "); ok { // of a toggle: all else is text
		value, flag, _ := strings.Cut(wrong, " for flag -")
		flag, _, _ = strings.Cut(flag, ":")
		return &usageError{fmt.Sprintf("--%s %s is neither true nor false; %s", flag, value, help)}
	}
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return &usageError{err.Error() + "; " + help}
	}
	if cmd.Name == "start" || cmd.Name == "config" {
		help = "known are those of ws-worker up to " + options.Counterpart + ", and this worker's own; " + help
	}
	if len(name) == 1 {
		return &usageError{fmt.Sprintf("unknown option -%s; %s", name, help)}
	}
	if meant := options.Closest(name, longNames(cmd)); meant != "" {
		return &usageError{fmt.Sprintf("unknown option --%s: did you mean --%s? %s", name, meant, help)}
	}
	return &usageError{fmt.Sprintf("unknown option --%s; %s", name, help)}
}

// longNames are those of a command's own options.
func longNames(cmd *cli.Command) []string {
	var names []string
	for _, f := range cmd.Flags {
		names = append(names, f.Names()...)
	}
	return slices.DeleteFunc(names, func(name string) bool { return len(name) == 1 })
}

// noArguments refuses words that are no options.
func noArguments(_ context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return unknownCommand(cmd, cmd.Args().First())
	}
	return nil
}
