package report

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/getsentry/sentry-go"
)

// Config is where to report, and as what.
type Config struct {
	// DSN is the address of the Sentry project.
	DSN string
	// Environment and Release are what Sentry shows.
	Environment, Release string
	// Server is the name of the worker. Defaults to none.
	Server string
	// Hide are secrets; where an event has one in it, it has asterisks instead.
	Hide []string
	// TLS is how to connect. Defaults to the system's authorities.
	TLS *tls.Config
}

const (
	// flushTime is how long Close waits for what is not sent yet.
	flushTime = 2 * time.Second
	// requestTime is how long Sentry may take for one event.
	requestTime = 10 * time.Second
)

// Reporter sends events to Sentry.
type Reporter struct {
	client *sentry.Client
	scrub  *scrubber
	wire   *http.Transport
	stop   context.CancelCauseFunc // ends the request under way
}

// New returns a reporter. It must be closed. The error does not quote the DSN,
// which has a key in it.
func New(cfg Config) (*Reporter, error) {
	// The client has a default for a DSN that is empty, which is not wanted.
	if _, err := sentry.NewDsn(cfg.DSN); err != nil {
		return nil, errNoDSN
	}
	over, stop := context.WithCancelCause(context.Background())
	wire := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg.TLS.Clone()}
	client, err := sentry.NewClient(sentry.ClientOptions{
		Dsn: cfg.DSN, Environment: cfg.Environment, Release: cfg.Release,
		HTTPClient: &http.Client{Transport: &endable{wire: wire, over: over}, Timeout: requestTime},
		// The integrations tell of the machine, its packages and its environment.
		Integrations: func([]sentry.Integration) []sentry.Integration { return nil },
		BeforeSend: func(event *sentry.Event, _ *sentry.EventHint) *sentry.Event {
			event.ServerName = cfg.Server // the client has put the host's
			return event
		},
	})
	if err != nil {
		stop(nil)
		return nil, errNoDSN
	}
	return &Reporter{client: client, scrub: newScrubber(append(cfg.Hide, cfg.DSN)), wire: wire, stop: stop}, nil
}

var errNoDSN = errors.New("the address of the Sentry project is not a DSN, which is like https://KEY@sentry.example.org/1")

// Handler returns a handler that reports records of level error and above.
func (r *Reporter) Handler() slog.Handler { return &handler{reporter: r} }

// Close waits up to two seconds for what is not sent yet, and ends the reporter.
func (r *Reporter) Close() {
	r.client.Flush(flushTime)
	r.stop(errClosed)
	r.client.Close()
	r.wire.CloseIdleConnections()
}

var errClosed = errors.New("the reporter was closed")

// endable is a transport whose requests can be ended, which the client has no way
// to do: a Sentry that does not answer would hold the worker up.
type endable struct {
	wire http.RoundTripper
	over context.Context
}

func (e *endable) RoundTrip(req *http.Request) (*http.Response, error) {
	if e.over.Err() != nil {
		return nil, context.Cause(e.over)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(e.over, func() { cancel(errClosed) })
	context.AfterFunc(ctx, func() { stop() })
	res, err := e.wire.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("report to Sentry: %w", err)
	}
	return res, nil
}
