package lightning

import (
	"crypto/rsa"
	"errors"
	"log/slog"
	"time"
)

// Config are the options of a [Service]. Only Secret is required.
type Config struct {
	// Secret is WORKER_SECRET: the key of the workers' HS256 tokens, used as
	// the bytes it consists of.
	Secret string
	// Key signs the run tokens. Defaults to a key of 2048 bits made when the
	// first one is needed.
	Key *rsa.PrivateKey
	// OpaqueTokens hands out random strings for run tokens, as OpenFn's
	// lightning-mock does, instead of JWTs. They expire all the same, but a
	// worker cannot verify them. A signature costs about a millisecond of
	// processor time a run: too much for a benchmark of a worker.
	OpaqueTokens bool
	// RunTimeout is the time limit of a run whose plan has no
	// options.run_timeout_ms. Defaults to 5 minutes.
	RunTimeout time.Duration
	// WakeDebounce is how long after a run is created the workers are told,
	// once for all runs created meanwhile. Defaults to 500 ms; negative: at
	// once and for each run.
	WakeDebounce time.Duration
	// JanitorInterval is how often runs past their time are marked lost.
	// Defaults to 5 minutes.
	JanitorInterval time.Duration
	// KeepRuns is how many ended runs are remembered; the oldest are forgotten
	// first, and their ids may be used again. Defaults to 10,000; negative: none.
	KeepRuns int
	// WipeDataclips erases a run's input when it is first read, and keeps no
	// outputs: the retention policy erase_all. A second read gets null.
	WipeDataclips bool
	// Dataclips is which form of a step's output is taken. Defaults to [EitherDataclips].
	Dataclips Dataclips
	// MaxQueued is how many runs may wait to be claimed; more are refused.
	// Defaults to no limit.
	MaxQueued int
	// Extensions make a server of it that knows more than Lightning does, for
	// clients that ask. Defaults to nil: none is known.
	Extensions *Extensions
	// Logger defaults to discarding.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Secret == "" {
		return c, errors.New("a worker secret is needed to verify the tokens of workers: set Config.Secret")
	}
	if c.RunTimeout <= 0 {
		c.RunTimeout = 5 * time.Minute
	}
	if c.WakeDebounce == 0 {
		c.WakeDebounce = 500 * time.Millisecond
	}
	if c.JanitorInterval <= 0 {
		c.JanitorInterval = 5 * time.Minute
	}
	if c.KeepRuns == 0 {
		c.KeepRuns = 10_000
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Extensions == nil {
		return c, nil
	}
	extensions, err := c.Extensions.withDefaults()
	c.Extensions = &extensions
	return c, err
}

// grace is what a run is given beyond its time limit, by its token and by the
// janitor alike.
const grace = 10 * time.Second
