package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"sync"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/build"
	"github.com/phxworker/phxworker/cmd/phxworker/logs"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/cmd/phxworker/report"
	"github.com/phxworker/phxworker/cmd/phxworker/token"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
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

func (p *program) start(ctx context.Context, cmd *cli.Command) (err error) {
	settings, err := options.Read(cmd, p.getenv)
	if err != nil {
		return options.Explain(err, p.environ)
	}
	settings.Notices = append(settings.Notices, options.UnknownVariables(p.environ)...)
	made := settings.HTTP.Token == ""
	if made { // before there is a log, which is to know what must not be in it
		settings.HTTP.Token = token.New()
	}
	log, flush, err := p.logger(&settings)
	if err != nil {
		return err
	}
	defer flush()
	defer func() {
		logs.Flush(log.Handler()) // the last line says why the worker ended
		err = p.conclude(err, log, &settings)
	}()
	worker, executor, err := prepare(ctx, settings, log)
	var listener net.Listener
	if err == nil {
		defer finish(executor, log)
		// Not before the engine has answered: probes would find a port that is
		// open, and nobody behind it.
		listener, err = listen(ctx, settings.HTTP)
	}
	switch {
	case err != nil && ctx.Err() != nil: // told to stop before it began
		return nil
	case err != nil:
		return err
	case listener != nil:
		defer listener.Close()
		executor.listening(listener.Addr())
	}
	log.Info("starting", "version", build.Read().Version, "server", loggable(settings.Worker.URL), "groups", slots.Format(worker.Groups()), "engine", settings.Engine.String())
	var kept *token.File
	if made && listener != nil {
		kept = p.keepToken(listener, &settings, log)
	}
	defer serve(listener, worker, executor, &settings, kept, log)()
	defer kept.Remove() // before the address is free for another worker
	defer context.AfterFunc(ctx, func() {
		if running, _ := activity(worker.Stats()); running == 0 {
			return
		}
		log.Info("a second signal cancels the runs under way, a third ends the process at once; those within a second are one")
	})()
	defer context.AfterFunc(p.abort, worker.Abort)()
	var idle sync.WaitGroup
	defer idle.Wait()
	over, stop := context.WithCancel(ctx)
	defer stop()
	idle.Go(func() { releaseIdleMemory(over, worker) })
	return worker.Run(ctx)
}

// conclude logs the error that ends the worker: who reads the log, as Sentry does,
// must find it there, and a program that reads JSON nothing else. A person at a
// terminal is told it in a line of its own, and so is one who wants no log.
func (p *program) conclude(err error, log *slog.Logger, settings *options.Settings) error {
	person := isTerminal(p.stderr) || settings.Log.Level > slog.LevelError
	if err == nil || person && settings.Sentry.DSN == "" {
		return err
	}
	level := slog.LevelError
	if errors.Is(err, phxworker.ErrAborted) { // it was told to
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "the worker has ended", "error", problem(err))
	if person {
		return err
	}
	return &logged{err}
}

// logger returns the logger of a worker, and what sends the last error reports.
func (p *program) logger(settings *options.Settings) (log *slog.Logger, flush func(), err error) {
	handler := settings.Log.Handler(p.stderr, isTerminal(p.stderr))
	if settings.Sentry.DSN == "" {
		return slog.New(logs.Limit(handler)), func() {}, nil
	}
	reporter, err := report.New(report.Config{
		DSN: settings.Sentry.DSN, Environment: settings.Sentry.Environment,
		Release: build.Read().Version, Server: settings.Worker.Name,
		Hide: []string{settings.Worker.Secret, settings.HTTP.Token}, TLS: settings.Worker.Transport.TLS,
	})
	if err != nil {
		return nil, nil, &usageError{err.Error()}
	}
	return slog.New(logs.Limit(slog.NewMultiHandler(handler, reporter.Handler()))), reporter.Close, nil
}

func tellNotices(log *slog.Logger, notices []options.Notice) {
	for _, notice := range notices {
		log.Warn(notice.Message, "option", notice.Option, "reason", notice.Reason)
	}
}

// prepare makes a worker that has not begun, and its engine. It logs what is
// doubtful about the settings.
func prepare(ctx context.Context, settings options.Settings, log *slog.Logger) (*phxworker.Worker, engine, error) {
	tellNotices(log, settings.Notices)
	cfg := settings.Worker
	cfg.Logger, cfg.Version = log, build.Read().Version
	executor, err := newEngine(ctx, settings.Engine, cfg.Limits, log)
	if err != nil {
		return nil, engine{}, err
	}
	cfg.Engine = executor.runs
	if settings.AcceptAdaptors != nil {
		cfg.Hooks.Accept = runner.AcceptAdaptors(settings.AcceptAdaptors...)
	}
	worker, err := phxworker.New(cfg)
	if err != nil {
		return nil, engine{}, errors.Join(&usageError{err.Error()}, executor.end())
	}
	return worker, executor, nil
}

// finish ends the engine of a worker that has stopped.
func finish(executor engine, log *slog.Logger) {
	if err := executor.end(); err != nil {
		log.Warn("the engine did not end well", "error", err)
	}
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

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
