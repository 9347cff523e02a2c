package phxworker

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// Config is what a [Worker] works with. URL, Secret and Engine are required;
// the zero values of all others are their defaults.
type Config struct {
	// URL is the server's worker endpoint, such as wss://lightning.example.org/worker.
	URL string
	// Secret signs the token that the worker shows when it connects. It is the
	// server's WORKER_SECRETS entry as it stands, not decoded.
	Secret string
	// Engine executes the runs.
	Engine Engine

	// Groups are the slot groups, such as "fast_lane:1 manual>*:4"; see
	// [slots.Parse]. Defaults to "manual>*:5".
	Groups string
	// Name is shown by the server as who took a run. Defaults to none.
	Name string
	// PublicKey is the base64 of the PEM of the server's public key. With it,
	// a run whose token was not signed by the server is not executed. Defaults
	// to none: tokens are not verified.
	PublicKey string
	// Manual makes a worker that claims only when [Worker.Claim] is called, until
	// [Worker.Resume].
	Manual bool
	// DemandAll claims as many runs at once as a group has open slots, few as long as the
	// engine has not shown that it can execute them. Defaults
	// to one run a claim, which spreads runs over the workers.
	DemandAll bool
	// Limits bound each run; a plan's options override them.
	Limits Limits

	// MinBackoff and MaxBackoff bound the pause between claims that bring
	// nothing. They default to 1 s and 10 s.
	MinBackoff, MaxBackoff time.Duration
	// ClaimTimeout is how long a reply to a claim is waited for. It is long,
	// because the server may have given a run away already. Defaults to an hour.
	ClaimTimeout time.Duration
	// MessageTimeout is how long an event of a run may go unanswered before its topic is
	// joined anew and it is sent again; and a claim before the log says so. Defaults to 30 s.
	MessageTimeout time.Duration
	// Grace is how long runs may go on after the context of [Worker.Run] ended.
	// Defaults to the run time-out of Limits.
	Grace time.Duration
	// MaxErrors stops the worker when it has that many errors: each claim that
	// fails and each run that cannot be reported is one, each that succeeds
	// takes one off. Defaults to 0, which is no limit.
	MaxErrors int

	// Gate is asked before each claim, with the name of the group. An error holds
	// the claim back, and the gate is asked again a back-off later: for want of
	// memory, disk or anything else that runs need. The context ends when the
	// worker stops. Defaults to none, which is always open.
	Gate func(ctx context.Context, group string) error
	// Middleware is around the execution of every run, the first outermost.
	Middleware []Middleware
	// AfterRun is called when a run is over and the server has been told, or
	// cannot be; the run's slot is free when it returns, and no sooner, nor does
	// [Worker.Run] return before. It is called concurrently for different runs.
	// Defaults to none.
	AfterRun func(RunResult)

	// Accept decides which runs are executed here, by their plans. Defaults to all.
	Accept AcceptFunc
	// RefuseUnsuitable ends a run that Accept returns as an exception when the
	// server takes no runs back. By default it is executed then.
	RefuseUnsuitable bool
	// MaxAttempts is how often a run may be tried, where the server counts.
	// Defaults to 3; negative: as often as it likes.
	MaxAttempts int
	// Prefetch claims one run more for each group than it has slots for, so that it
	// is there when a slot is freed, where the server takes back what waits too long.
	Prefetch bool
	// MaxRuns stops the worker in good order once it has begun so many runs; what is
	// claimed by then is executed all the same. Defaults to 0, which is no limit.
	MaxRuns int
	// IdleTimeout stops the worker in good order when it has had no run for so long.
	// Defaults to 0, which is never.
	IdleTimeout time.Duration
	// Extensions are those offered to the server: names of [KnownExtensions], or
	// [AllExtensions]. One that the server does not announce is not used. Defaults to none: a
	// Lightning sees a worker like any other.
	Extensions []string

	// NativeDataclips sends a step's output as a JSON object and not as a text with JSON in it, which
	// is up to twice as long: what is no object goes as {"value": …}. Lightning takes it from 2.19 on; an older
	// one refuses it, and outputs are left out. Defaults to off.
	NativeDataclips bool
	// BatchLogs sends several lines of a run's log in one message, to servers
	// that know run:batch_logs. Defaults to off.
	BatchLogs BatchLogs
	// LogsAtMostOnce sends no line of a run's log twice, at the price of one
	// that may be lost with a connection. By default each line arrives at least
	// once.
	LogsAtMostOnce bool
	// Spool is the folder for what could not be reported of a run. It should be there, and be
	// the worker's user's alone, or root's. Defaults to none: it is lost, and the log says so.
	Spool string

	// ReadLimit is the size in bytes of the largest message that is read from the server, which
	// is most often a run's input: a run whose input is larger ends as an exception that says so.
	// A run may hold as much several times over. Defaults to 64 MiB.
	ReadLimit int64

	// TLS, Proxy and NetDial say how to connect; see [channel.Config].
	TLS     *tls.Config
	Proxy   func(*http.Request) (*url.URL, error)
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Version is what the worker calls itself. Defaults to the module's version.
	Version string
	// Logger receives what a person should know of, never a token or a secret.
	// Defaults to none.
	Logger *slog.Logger
}

const (
	defaultGroups       = "manual>*:5"
	defaultClaimTimeout = time.Hour

	defaultMessageTimeout = 30 * time.Second
)

// complete returns a copy of c with its defaults, and the groups. The error
// says what is wrong with c.
func (c Config) complete() (Config, []slots.Group, error) {
	switch {
	case c.URL == "":
		return c, nil, errors.New("no URL: say where the server's worker endpoint is, as in ws://localhost:4000/worker")
	case c.Secret == "":
		return c, nil, errors.New("no secret: the worker needs the secret that the server knows it by (WORKER_SECRET)")
	case c.Engine == nil:
		return c, nil, errors.New("no engine: say what executes the runs, for example a phxworker.Func")
	}
	if err := (&channel.Config{URL: c.URL}).Validate(); err != nil {
		return c, nil, err
	}
	if c.Groups == "" {
		c.Groups = defaultGroups
	}
	if c.MinBackoff <= 0 {
		c.MinBackoff = claim.DefaultMinBackoff
	}
	if c.ClaimTimeout <= 0 {
		c.ClaimTimeout = defaultClaimTimeout
	}
	if c.MessageTimeout <= 0 {
		c.MessageTimeout = defaultMessageTimeout
	}
	if c.Grace <= 0 {
		c.Grace = c.Limits.WithDefaults().RunTimeout
	}
	if c.Version == "" {
		c.Version = Version()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	if c.Spool != "" {
		if warning := runner.CheckSpool(c.Spool); warning != "" {
			c.Logger.Warn(warning)
		}
	}
	groups, warnings, err := slots.Parse(c.Groups)
	if err != nil {
		return c, nil, err
	}
	for _, warning := range warnings {
		c.Logger.Warn(warning)
	}
	return c, groups, nil
}
