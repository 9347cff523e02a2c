package main

import (
	"context"
	"log/slog"

	"github.com/urfave/cli/v3"

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
		Out: p.stdout, Columns: columns(p.stdout), Keep: cmd.Bool("keep"),
		Engine: js.New(js.Config{}), Examples: plans, Logger: log,
	})
}
