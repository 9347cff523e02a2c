package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/runner/js"
)

func (p *program) startCommand() *cli.Command {
	return &cli.Command{
		Name:               "start",
		Usage:              "claim runs and execute them",
		Flags:              options.Flags(),
		CustomHelpTemplate: startHelp + options.Help() + exitHelp,
		HideHelpCommand:    true,
		OnUsageError:       explainUsage,
		ArgValidator:       noArguments,
		Action:             p.start,
	}
}

func (p *program) start(ctx context.Context, cmd *cli.Command) error {
	settings, err := options.Read(cmd, p.getenv)
	if err != nil {
		return err
	}
	log := settings.Log.Logger(p.stderr)
	for _, notice := range settings.Notices {
		log.Warn(notice.Message, "option", notice.Option, "reason", notice.Reason)
	}

	cfg := settings.Worker
	cfg.Logger, cfg.Version = log, phxworker.Version()
	cfg.Engine = js.New(js.Config{StatePropsToRemove: settings.StateProps, Logger: log})
	worker, err := phxworker.New(cfg)
	if err != nil {
		return &usageError{err.Error()}
	}
	log.Info("starting", "version", cfg.Version)
	defer context.AfterFunc(p.abort, worker.Abort)()
	return worker.Run(ctx)
}
