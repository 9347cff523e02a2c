package main

import (
	"context"
	"log/slog"
	"net"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/build"
	"github.com/phxworker/phxworker/cmd/phxworker/metrics"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/cmd/phxworker/token"
	"github.com/phxworker/phxworker/cmd/phxworker/web"
)

// listen opens the listener for HTTP, nil if none is wanted. It comes before
// anything is claimed: a worker that cannot be watched is not what was asked for.
// That it fails is no usageError: a port is freed, an address comes up, a name is
// known after a while.
func listen(ctx context.Context, http options.HTTP) (net.Listener, error) {
	if http.Port == "off" {
		return nil, nil
	}
	return web.Listen(ctx, http.Host, http.Port)
}

// serve answers HTTP requests about the worker until stop is called, which waits
// for the end of those under way. Without a listener it does nothing.
func serve(listener net.Listener, worker *phxworker.Worker, executor engine, settings *options.Settings, kept *token.File, log *slog.Logger) (stop func()) {
	if listener == nil {
		return func() {}
	}
	info := build.Read()
	numbers := metrics.New(metrics.Config{Stats: worker.Stats, Processes: executor.processes, Build: info})
	server := web.New(web.Config{
		Worker: worker, Metrics: metrics.Handler(numbers, log), Token: settings.HTTP.Token, Host: settings.HTTP.Host, Manual: settings.Worker.Manual, Fences: executor.knownFences,
		Upstream: loggable(settings.Worker.URL), Version: info.Version, Commit: info.Commit, Logger: log,
	})
	told := log
	if kept != nil {
		told = log.With("token_file", kept.Path())
	}
	told.Info("serving", "address", openable(listener.Addr()), "controls", settings.HTTP.Token != "")
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(ctx, listener); err != nil {
			log.Error("HTTP is no longer served; the worker goes on", "error", err)
		}
	}()
	return func() {
		cancel()
		<-served
	}
}

// openable returns a URL of the worker that can be opened on its machine: one that listens at all addresses has no
// address that a browser could go to.
func openable(at net.Addr) string {
	if host, port, err := net.SplitHostPort(at.String()); err == nil && anywhere(host) {
		return "http://" + net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + at.String()
}

// keepToken keeps the token that was made for a worker, where its user's commands look
// for it. Where it cannot be kept the worker has none, and nobody can control it: that is
// better than no worker.
func (p *program) keepToken(listener net.Listener, settings *options.Settings, log *slog.Logger) *token.File {
	shown := []string{settings.Engine.RepoDir, settings.Engine.MonorepoDir}
	file, err := token.Keep(token.Folders(p.getenv), shown, listener.Addr(), settings.HTTP.Token)
	if err != nil {
		settings.HTTP.Token = ""
		log.Warn("controls are off: their token cannot be kept; set XDG_RUNTIME_DIR to a folder of the worker's user, or give a token with --http-token-file or WORKER_HTTP_TOKEN", "error", err)
		return nil
	}
	return file
}
