package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Bounds of a request. The longest wait of a handler is claimPatience, and its
// answer must fit in after that.
const (
	maxBody       = 4 << 10
	maxHeader     = 16 << 10
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	claimPatience = 20 * time.Second
	writeTimeout  = readTimeout + claimPatience + 10*time.Second
	idleTimeout   = time.Minute
	// shutdownGrace is how long answers under way may take once the worker has
	// stopped.
	shutdownGrace = 2 * time.Second
)

// Listen opens the listener for a server: host empty for every address of this
// machine, port "0" for one that the system chooses. The error tells what to do.
func Listen(ctx context.Context, host, port string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, network(host), net.JoinHostPort(host, port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--port %s is taken on this machine: give another, 0 for any free one, or off", port)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("--port %s is not for this user to listen at: give one from 1024 on, 0 for any free one, or off", port)
	case err != nil:
		return nil, fmt.Errorf("--host %s cannot be listened at: %w; give an address of this machine, or leave it out for all", host, err)
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

// Serve answers requests until ctx ends, then lets those under way finish for a
// moment. It closes the listener, and returns when all connections are closed.
// The error is the listener's.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		_ = server.Close()
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
	}
	<-served //nolint:errcheck // says that it was closed
	return nil
}
