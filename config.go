package phxworker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner/delivery"
	"github.com/phxworker/phxworker/slots"
)

// Config is what a [Worker] works with. URL, Secret and Engine are required;
// the zero values of all others are their defaults.
type Config struct {
	// URL is the server's worker endpoint, such as wss://lightning.example.org/worker.
	URL string
	// Secret signs the token that the worker shows when it connects. It is the
	// server's WORKER_SECRETS entry as it stands, not decoded; of one that is read from a file,
	// trim the end of the line.
	Secret string
	// Engine executes the runs.
	Engine Engine

	// Groups are the slot groups, as of [slots.MustParse]("fast_lane:1 manual>*:4"), or
	// written by hand. Defaults to one that takes runs of every queue, 5 at once.
	Groups []slots.Group
	// Name is shown by the server as who took a run. Defaults to none.
	Name string
	// PublicKey is the base64 of the PEM of the server's public key. With it,
	// a run whose token was not signed by the server is not executed. Defaults
	// to none: tokens are not verified.
	PublicKey string
	// Limits bound each run; a plan's options override them.
	Limits Limits
	// MaxAttempts is how often a run may be tried, where the server counts.
	// Defaults to 3; negative: as often as it likes.
	MaxAttempts int
	// Extensions are those offered to the server: names of [KnownExtensions], or
	// [AllExtensions]. One that the server does not announce is not used. Defaults to none: a
	// Lightning sees a worker like any other.
	Extensions []string

	// Grace is how long runs may go on after the context of [Worker.Run] ended.
	// Defaults to the run time-out of Limits.
	Grace time.Duration
	// MaxErrors stops the worker when it has that many errors: each claim that
	// fails and each run that cannot be reported is one, each that succeeds
	// takes one off. Defaults to 0, which is no limit.
	MaxErrors int
	// MaxRuns stops the worker in good order once it has begun so many runs; what is
	// claimed by then is executed all the same. Defaults to 0, which is no limit.
	MaxRuns int
	// IdleTimeout stops the worker in good order when it has had no run for so long.
	// Defaults to 0, which is never.
	IdleTimeout time.Duration

	Claim     Claim     // how runs are asked for
	Delivery  Delivery  // how runs are reported
	Hooks     Hooks     // what of yours is called
	Transport Transport // how to connect

	// Version is what the worker calls itself. Defaults to the module's version.
	Version string
	// Logger receives what a person should know of, never a token or a secret.
	// Defaults to none.
	Logger *slog.Logger
}

// Claim says how a worker asks for runs; see [claim.Options].
type Claim = claim.Options

// Hooks are functions of yours that a worker calls. Those that are nil are not called. They
// are called concurrently.
type Hooks struct {
	// Gate is asked before each claim, with the name of the group. An error holds
	// the claim back, and the gate is asked again a back-off later: for want of
	// memory, disk or anything else that runs need. The context ends when the
	// worker stops.
	Gate func(ctx context.Context, group string) error
	// Accept decides which runs are executed here, by their plans. Defaults to all.
	Accept AcceptFunc
	// RefuseUnsuitable ends a run that Accept returns as an exception when the
	// server takes no runs back. By default it is executed then.
	RefuseUnsuitable bool
	// Middleware is around the execution of every run, the first outermost.
	Middleware []Middleware
	// AfterRun is called when a run is over and the server has been told, or
	// cannot be; the run's slot is free when it returns, and no sooner, nor does
	// [Worker.Run] return before.
	AfterRun func(RunResult)
}

// Transport says how to connect.
type Transport struct {
	// TLS, Proxy and NetDial are those of [channel.Config].
	TLS     *tls.Config
	Proxy   func(*http.Request) (*url.URL, error)
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ReadLimit is the size in bytes of the largest message that is read from the server, which
	// is most often a run's input: a run whose input is larger ends as an exception that says so.
	// A run may hold as much several times over. Defaults to 64 MiB.
	ReadLimit int64
}

const defaultSlots = 5

// problem returns what is wrong with a configuration, in one line; nil if nothing is.
func (c *Config) problem() error {
	f, isFunc := c.Engine.(Func)
	switch {
	case c.URL == "":
		return errors.New("no URL: say where the server's worker endpoint is, as in ws://localhost:4000/worker")
	case strings.TrimSpace(c.Secret) == "":
		return errors.New("no secret, or one that is all blanks: the worker needs the secret that the server knows it by (WORKER_SECRET)")
	case c.Engine == nil || isFunc && f == nil: // every run of a nil function would end in its panic
		return errors.New("no engine: say what executes the runs, for example a phxworker.Func")
	case c.Claim.MaxBackoff > 0 && c.Claim.MaxBackoff < c.Claim.MinBackoff:
		return fmt.Errorf("Claim.MaxBackoff (%v) is less than Claim.MinBackoff (%v): exchange them", c.Claim.MaxBackoff, c.Claim.MinBackoff)
	case !slices.Contains([]string{"", "debug", "info", "warn", "error", "none"}, c.Limits.JobLogLevel):
		return fmt.Errorf("Limits.JobLogLevel is %q: write debug, info, warn, error or none", c.Limits.JobLogLevel)
	case slices.ContainsFunc(c.Hooks.Middleware, func(m Middleware) bool { return m == nil }):
		return errors.New("one of Hooks.Middleware is nil: leave it out")
	}
	for _, n := range []struct {
		field string
		value float64
	}{
		{"Grace", float64(c.Grace)},
		{"MaxErrors", float64(c.MaxErrors)},
		{"MaxRuns", float64(c.MaxRuns)},
		{"IdleTimeout", float64(c.IdleTimeout)},
		{"Claim.MinBackoff", float64(c.Claim.MinBackoff)},
		{"Claim.MaxBackoff", float64(c.Claim.MaxBackoff)},
		{"Claim.Timeout", float64(c.Claim.Timeout)},
		{"Delivery.MessageTimeout", float64(c.Delivery.MessageTimeout)},
		{"Delivery.OutboxBytes", float64(c.Delivery.OutboxBytes)},
		{"Delivery.BatchLogs.Interval", float64(c.Delivery.BatchLogs.Interval)},
		{"Delivery.BatchLogs.Limit", float64(c.Delivery.BatchLogs.Limit)},
		{"Transport.ReadLimit", float64(c.Transport.ReadLimit)},
		{"Limits.RunTimeout", float64(c.Limits.RunTimeout)},
		{"Limits.MemoryMB", c.Limits.MemoryMB},
	} {
		if n.value < 0 {
			return fmt.Errorf("%s is negative: give more, or 0 for the default", n.field)
		}
	}
	return (&channel.Config{URL: c.URL}).Validate()
}

// complete returns a copy of c with its defaults. The error says what is wrong with c.
func (c Config) complete() (Config, error) {
	if err := c.problem(); err != nil {
		return c, err
	}
	if len(c.Groups) == 0 {
		c.Groups = slots.Plain(defaultSlots)
	}
	c.Claim = c.Claim.WithDefaults()
	c.Delivery = c.Delivery.WithDefaults()
	if c.Grace == 0 {
		c.Grace = c.Limits.WithDefaults().RunTimeout
	}
	if c.Version == "" {
		c.Version = Version()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Delivery.Spool != "" {
		if warning := delivery.CheckSpool(c.Delivery.Spool); warning != "" {
			c.Logger.Warn(warning)
		}
	}
	var warnings []string
	var err error
	c.Groups, warnings, err = slots.Check(c.Groups)
	for _, warning := range warnings {
		c.Logger.Warn(warning)
	}
	return c, err
}

// server returns the URL without what may be a secret in it.
func (c *Config) server() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}
