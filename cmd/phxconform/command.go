package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker/cmd/phxworker/build"
)

// The exit codes.
const (
	exitRed    = 1
	exitUsage  = 2
	exitUnable = 3
)

// usageError is a fault of the command line.
type usageError struct{ error }

// redError says that something is red. The report has said what.
type redError struct{ error }

// run runs the command until ctx ends, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newCommand(stdout, stderr)
	if len(args) > 1 && args[1] == "help" {
		args = slices.Delete(slices.Clone(args), 1, 2)
		if len(args) == 1 || root.Command(args[1]) != nil { // what is no mode is told as such
			args = append(args, "--help")
		}
	}
	err := root.Run(ctx, args)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "phxconform:", err)
	switch {
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.As(err, new(redError)):
		return exitRed
	default:
		return exitUnable
	}
}

func newCommand(stdout, stderr io.Writer) *cli.Command {
	out := output{stdout: stdout, stderr: stderr}
	return &cli.Command{
		Name:            "phxconform",
		Usage:           "tries a Lightning worker, or a server for such workers, and says what it does wrong",
		Version:         build.Read().String(),
		Commands:        []*cli.Command{workerCommand(out), serverCommand(out)},
		HideHelpCommand: true,
		Writer:          stdout,
		ErrWriter:       stderr,
		// Errors are printed and turned into exit codes by run alone.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		OnUsageError:   onUsageError,
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return usageError{fmt.Errorf("there is no mode %q: it is worker or server (see phxconform --help)", cmd.Args().First())}
			}
			return cli.ShowRootCommandHelp(cmd)
		},
	}
}

func onUsageError(_ context.Context, _ *cli.Command, err error, _ bool) error {
	if before, _, found := strings.Cut(err.Error(), ": strconv.ParseInt"); found { // the library does not wrap it
		err = fmt.Errorf("%s: it has to be a whole number, such as 3", before)
	}
	return usageError{fmt.Errorf("%w (see phxconform --help)", err)}
}
