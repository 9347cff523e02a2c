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

// Config configures a [Worker]. URL, Secret and Engine are required; the zero value of any other field
// is its default.
type Config struct {
	// URL is the server's worker endpoint, such as wss://lightning.example.org/worker.
	URL string
	// Secret signs the token with which the worker connects. It is an entry of the server's
	// WORKER_SECRETS as it stands, not decoded. When you read it from a file, cut off the line end.
	Secret string
	// Engine executes the runs.
	Engine Engine

	// Groups are the slot groups, as from [slots.MustParse]("fast_lane:1 manual>*:4"). Defaults to
	// one group with 5 slots for runs of every queue.
	Groups []slots.Group
	// Name is the name that the server shows for the worker of a run. Defaults to none.
	Name string
	// PublicKey is the server's public key: PEM, or that in base64. With it, a run whose token the
	// server has not signed is not executed. Defaults to none: tokens are not verified.
	PublicKey string
	// Limits bound each run; a plan's options override them.
	Limits Limits
	// MaxAttempts is how often a run may be tried, if the server counts attempts. Defaults to 3;
	// negative is no limit.
	MaxAttempts int
	// Extensions are the extensions offered to the server: names of [KnownExtensions], or
	// [AllExtensions]. An extension that the server does not announce is not used. Defaults to none.
	Extensions []string

	// Grace is how long runs may go on after the context of [Worker.Run] ended.
	// Defaults to the run time-out of Limits.
	Grace time.Duration
	// MaxErrors drains the worker, and ends [Worker.Run] with [ErrTooManyErrors], when it has this
	// many errors. Each failed claim and each run that cannot be reported counts as one; each that
	// succeeds takes one off. Defaults to 0, which is no limit.
	MaxErrors int
	// MaxRuns drains the worker once it has begun this many runs. Runs that are claimed by then are
	// executed all the same. Defaults to 0, which is no limit.
	MaxRuns int
	// IdleTimeout drains the worker when it has had no run for this long. Defaults to 0, which is
	// no limit.
	IdleTimeout time.Duration

	Claim     Claim     // how runs are asked for
	Delivery  Delivery  // how runs are reported
	Hooks     Hooks     // what of yours is called
	Transport Transport // how to connect

	// Version is what the worker calls itself. Defaults to the module's version.
	Version string
	// Logger receives what a person should know, never a token or a secret. Defaults to none.
	Logger *slog.Logger
}

// Claim says how a worker asks for runs; see [claim.Options].
type Claim = claim.Options

// Hooks are functions of yours that a worker calls, concurrently. A nil one is not called.
type Hooks struct {
	// Gate is asked before each claim, with the name of the group. An error holds the claim back, as
	// for want of memory or disk, and the gate is asked again a back-off later. The context ends
	// when the worker stops.
	Gate func(ctx context.Context, group string) error
	// Accept decides by its plan whether a run is executed here. Defaults to all runs.
	Accept AcceptFunc
	// RefuseUnsuitable is for a run that Accept wants to return while the server takes no runs back:
	// the run then ends as an exception. By default it is executed.
	RefuseUnsuitable bool
	// Middleware is around the execution of every run, the first one outermost.
	Middleware []Middleware
	// AfterRun is called when a run is over and was reported, or cannot be reported. The run's slot
	// is freed only after it returns, and [Worker.Run] waits for it, too.
	AfterRun func(RunResult)
}

// Transport says how to connect.
type Transport struct {
	// TLS, Proxy and NetDial are those of [channel.Config].
	TLS     *tls.Config
	Proxy   func(*http.Request) (*url.URL, error)
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ReadLimit is the size in bytes of the largest message that is read from the server. A run
	// whose input is larger ends as an exception that says so. A run may hold its input in memory
	// several times over. Defaults to 64 MiB.
	ReadLimit int64
}

const defaultSlots = 5

// problem returns what is wrong with a configuration; nil if nothing is.
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
