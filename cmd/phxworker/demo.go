package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/phxworker/phxworker/cmd/phxworker/demo"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/examples"
	"github.com/phxworker/phxworker/runner/js"
)

func (p *program) demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "show a worker at work",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "keep"},
			&cli.StringFlag{Name: "log", Value: "warn"},
		},
		CustomHelpTemplate: demoHelp,
		HideHelpCommand:    true,
		OnUsageError:       explainUsage,
		ArgValidator:       noArguments,
		Action:             p.demo,
	}
}

func (p *program) demo(ctx context.Context, cmd *cli.Command) error {
	level, ok := options.ParseLevel(cmd.String("log"))
	if !ok {
		return &usageError{"--log is not a level: write debug, info, warn, error or none"}
	}
	plans, err := examples.All()
	if err != nil {
		return &usageError{err.Error()}
	}
	log := slog.New(options.Log{Level: level, Format: "text"}.Handler(p.stderr, false))
	return demo.Run(ctx, demo.Config{
		Out: p.stdout, Terminal: isTerminal(p.stdout), Columns: columns(p.stdout), Keep: cmd.Bool("keep"),
		Engine: js.New(js.Config{Logger: log}), Examples: plans, Logger: log,
	})
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// columns returns how wide the terminal is, 80 at least and for what is none.
func columns(w io.Writer) int {
	const least = 80
	file, ok := w.(*os.File)
	if !ok {
		return least
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return least
	}
	return max(width, least)
}
