package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker/cmd/phxworker/logs"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/internal/fence"
	"github.com/phxworker/phxworker/runner/command/cgroup"
)

func (p *program) configCommand() *cli.Command {
	return &cli.Command{
		Name:               "config",
		Usage:              "show and check the settings",
		Flags:              options.Flags(),
		CustomHelpTemplate: configHelp,
		HideHelpCommand:    true,
		OnUsageError:       explainUsage,
		ArgValidator:       noArguments,
		Action:             p.config,
	}
}

// config prints what the options come to, and then makes a worker of it: what is
// wrong or doubtful is told as "phxworker start" tells it.
func (p *program) config(ctx context.Context, cmd *cli.Command) error {
	values, err := options.Collect(cmd, p.getenv)
	if err != nil {
		return err
	}
	if err := values.Print(p.stdout); err != nil {
		return err
	}
	settings, err := values.Settings()
	if err != nil {
		err = options.Explain(err, p.environ)
		if name := settings.Engine.Name; name == "auto" || name == "openfn" {
			err = errors.Join(p.printFences(fence.Probe(ctx)), err)
		}
		return err
	}
	settings.Notices = append(settings.Notices, options.UnknownVariables(p.environ)...)
	log := slog.New(logs.Limit(options.Log{Level: slog.LevelWarn, Format: "text"}.Handler(p.stderr, false)))
	checkGroups(settings.Engine, cgroup.Check, log)
	settings.Engine.Cgroups = false // which would move processes
	_, executor, err := prepare(ctx, settings, log)
	if err != nil {
		return err
	}
	defer finish(executor, log)
	if executor.fences == nil {
		return nil
	}
	return p.printFences(executor.fences())
}

func (p *program) printFences(states []fence.State) error {
	for _, f := range states {
		state := "up"
		if !f.Up {
			state = "missing, " + f.Why
		}
		if _, err := fmt.Fprintf(p.stdout, "# fence %s: %s\n", f.Name, state); err != nil {
			return err
		}
	}
	return nil
}
