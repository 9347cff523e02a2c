package main

import (
	"context"
	"net/url"
	"sync"

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
	log.Info("starting", "version", cfg.Version, "server", loggable(cfg.URL), "groups", worker.Groups(), "engine", "js")
	defer context.AfterFunc(ctx, func() {
		log.Info("told to stop; a second signal cancels the runs under way, a third ends the process at once")
	})()
	defer context.AfterFunc(p.abort, worker.Abort)()
	var idle sync.WaitGroup
	defer idle.Wait()
	over, stop := context.WithCancel(ctx)
	defer stop()
	idle.Go(func() { giveBack(over, worker) })
	return worker.Run(ctx)
}

// loggable returns a URL as it may be logged: without a query, which can hold a
// token, and without a password.
func loggable(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.RawQuery = ""
	return u.Redacted()
}
