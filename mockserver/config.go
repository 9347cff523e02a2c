package mockserver

import (
	"cmp"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/phxworker/phxworker/mockserver/extended"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/mockserver/lightning"
)

// Mode is how much a server knows.
type Mode string

// The modes.
const (
	// Lightning knows no more than OpenFn Lightning does: a channel dies of any other
	// event.
	Lightning Mode = "lightning"
	// Extended knows the extensions of docs/extensions as well, for the clients that offer them.
	Extended Mode = "extended"
)

// ParseMode reads lightning or extended; nothing is [Lightning].
func ParseMode(name string) (Mode, error) {
	switch mode := Mode(name); mode {
	case "":
		return Lightning, nil
	case Lightning, Extended:
		return mode, nil
	}
	return "", fmt.Errorf("there is no mode %q: it is lightning or extended", name)
}

// Config are the options of a [Server]; the zero value is a server like a stock
// Lightning.
type Config struct {
	// Mode is Lightning, or Extended: then clients that ask for extensions of
	// the protocol get them, and others notice nothing. Defaults to Lightning.
	Mode Mode
	// Extensions are the names of those that are announced. Defaults to all. This and
	// the next six count in extended mode only.
	Extensions []string
	// Lease is how long a claim, or a renewal, is good for. Defaults to 20 minutes.
	Lease time.Duration
	// ClaimAck is how long a worker may take from a claim to the join of the
	// run's topic. Defaults to 20 s.
	ClaimAck time.Duration
	// StatusInterval is how often workers are asked to send their status.
	// Defaults to 15 s.
	StatusInterval time.Duration
	// StatusTimeout is how long a worker may send no status before it counts as silent.
	// Defaults to 30 s.
	StatusTimeout time.Duration
	// MaxWait bounds how long a claim waits for a run. Defaults to 20 s.
	MaxWait time.Duration
	// AffinityWait is how long a run with a key waits for the worker that it
	// belongs to, before any may have it. Defaults to 10 s.
	AffinityWait time.Duration
	// MaxQueued is how many runs may wait to be claimed; more are refused with a
	// [*FullError]. Defaults to no limit, and to 1,000 in extended mode;
	// negative: no limit.
	MaxQueued int

	// Addr is where [Start] listens. Defaults to 127.0.0.1:0, a free port.
	Addr string
	// Secret is the WORKER_SECRET that the tokens of workers are signed with.
	// Defaults to a random one.
	Secret string

	// Key signs the run tokens. Defaults to a key of 2048 bits, made when the
	// first one is needed.
	Key *rsa.PrivateKey
	// OpaqueTokens hands out random strings for run tokens, as OpenFn's lightning-mock
	// does, instead of signed ones. They expire all the same, but a worker cannot verify
	// them. Benchmarks want it: a signature costs about a millisecond of processor time a run.
	OpaqueTokens bool
	// RunTimeout is the time limit of runs whose plan has none. Defaults to 5 minutes.
	RunTimeout time.Duration
	// WakeDebounce is how long after a run is created work-available is pushed,
	// once for all runs created meanwhile. Defaults to 500 ms; negative: at
	// once and for each run.
	WakeDebounce time.Duration
	// JanitorInterval is how often overdue runs are marked lost. Defaults to 5 minutes.
	JanitorInterval time.Duration
	// KeepRuns is how many ended runs are remembered; the oldest are forgotten first, and
	// their ids may be used again. Defaults to 10,000; negative: none.
	KeepRuns int
	// WipeDataclips erases inputs when they are first read and keeps no outputs: the
	// retention policy erase_all. A second read gets null.
	WipeDataclips bool
	// Dataclips is which form of a step's output is taken, as by one version of Lightning or
	// another. Defaults to [EitherDataclips], as since 2.19.
	Dataclips Dataclips

	// IdleTimeout closes the socket of a client that is silent for as long.
	// Defaults to 60 s.
	IdleTimeout time.Duration
	// MaxFrame is the largest message taken, in bytes, after decompression as well. Defaults to
	// 11,000,000.
	MaxFrame int64
	// MaxTopics is how many topics a socket can have joined, worker:queue
	// among them. Defaults to 100.
	MaxTopics int
	// TranscriptLimit is how many frames, the last ones of all sockets,
	// [Server.Transcript] returns; no more than 64 MiB of them are kept. Defaults to 1,000; negative: none.
	TranscriptLimit int

	// Page serves browsers, at / and under /page/, such as that of package page. It is called once, by [New].
	// Defaults to none: then / lists the routes for browsers, too.
	Page func(*Server) http.Handler

	// Faults are there from the start, in this order; see [Server.AddFault]. Those
	// for the event now strike before anybody has connected. Defaults to none.
	Faults []fault.Rule
	// FaultSeed decides what faults with a probability strike. Defaults to a
	// random one, which [Server.FaultSeed] tells.
	FaultSeed uint64

	// Logger takes, as warnings, refused sockets, crashed channels and lost
	// runs, and at level info the workers that join and leave and the runs that
	// end. Defaults to discarding.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var err error
	if c.Mode, err = ParseMode(string(c.Mode)); err != nil {
		return c, err
	}
	if c.MaxQueued == 0 && c.Mode == Extended {
		c.MaxQueued = 1000
	}
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:0")
	c.Secret = cmp.Or(c.Secret, rand.Text())
	c.TranscriptLimit = cmp.Or(c.TranscriptLimit, 1000)
	c.FaultSeed = cmp.Or(c.FaultSeed, 1+mathrand.Uint64N(1<<32)) // easily typed again
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// plain are the options of Lightning itself.
func (c Config) plain() lightning.Config {
	return lightning.Config{
		Secret: c.Secret, Key: c.Key, OpaqueTokens: c.OpaqueTokens,
		RunTimeout: c.RunTimeout, WakeDebounce: c.WakeDebounce, JanitorInterval: c.JanitorInterval,
		KeepRuns: c.KeepRuns, WipeDataclips: c.WipeDataclips, Dataclips: c.Dataclips, Logger: c.Logger,
		MaxQueued: max(c.MaxQueued, 0),
	}
}

// extensions are the options that only count in extended mode.
func (c Config) extensions() extended.Config {
	return extended.Config{
		Names: c.Extensions, Lease: c.Lease, ClaimAck: c.ClaimAck,
		StatusInterval: c.StatusInterval, StatusTimeout: c.StatusTimeout,
		MaxWait: c.MaxWait, AffinityWait: c.AffinityWait,
	}
}
