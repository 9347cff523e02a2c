package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"syscall"

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
func listen(ctx context.Context, at options.HTTP) (net.Listener, error) {
	if at.Port == "off" {
		return nil, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, network(at.Host), net.JoinHostPort(at.Host, at.Port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--port %s is taken on this machine: give another, 0 for any free one, or off", at.Port)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("--port %s is not for this user to listen at: give one from 1024 on, 0 for any free one, or off", at.Port)
	case err != nil:
		return nil, fmt.Errorf("--host %s cannot be listened at: %w; give an address of this machine, or leave it out for all", at.Host, err)
	}
	return listener, nil
}

// network returns that of a host: 0.0.0.0 is all addresses of IPv4, but those of IPv6 as well
// in the network tcp.
func network(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is4() {
		return "tcp4"
	}
	return "tcp"
}

// serve answers HTTP requests about the worker until stop is called, which waits
// for the end of those under way. Without a listener it does nothing.
func serve(listener net.Listener, worker *phxworker.Worker, executor engine, settings *options.Settings, kept *token.File, log *slog.Logger) (stop func()) {
	if listener == nil {
		return func() {}
	}
	info := build.Read()
	server := web.New(worker, web.Config{
		Metrics: metrics.Handler(worker, metrics.Config{Processes: executor.processes, Egress: executor.egress, Version: info.Version, Commit: info.Commit, Logger: log}),
		Token:   settings.HTTP.Token, ControlsOff: "set --http-token-file or WORKER_HTTP_TOKEN; its log says why it has made none", Host: settings.HTTP.Host, OpenClaim: settings.Worker.Claim.Manual, Fences: executor.shownFences,
		ServerPage: settings.ServerPage(), Version: info.Version, Commit: info.Commit, Logger: log,
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
