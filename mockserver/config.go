package mockserver

import (
	"crypto/rand"
	"crypto/rsa"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/mockserver/lightning"
)

// Config are the options of a [Server]; the zero value is a server like a stock
// Lightning.
type Config struct {
	// Mode is Lightning, or Extended: then clients that ask for extensions of
	// the protocol get them, and others notice nothing. Defaults to what the environment
	// variable PHXWORKER_MOCK_MODE says, and to Lightning if it says nothing.
	Mode Mode
	// Extensions are the names of those that are announced. Defaults to all. This and
	// the next six count in extended mode only.
	Extensions []string
	// Lease is for how long a claim, or a renewal, is good. Defaults to 20 minutes.
	Lease time.Duration
	// ClaimAck is how long a worker may take from a claim to the join of the
	// run's topic. Defaults to 20 s.
	ClaimAck time.Duration
	// StatusInterval is how often workers are asked to send their status.
	// Defaults to 15 s.
	StatusInterval time.Duration
	// StatusTimeout is after how long without one a worker is silent. Defaults
	// to 30 s.
	StatusTimeout time.Duration
	// MaxWait is how long a claim waits for a run at most. Defaults to 20 s.
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
	// OpaqueTokens hands out random strings for run tokens instead of signed
	// ones, which a worker cannot verify. Benchmarks want it: a signature
	// costs about a millisecond of processor time a run.
	OpaqueTokens bool
	// RunTimeout is the time limit of runs whose plan has none. Defaults to 5 minutes.
	RunTimeout time.Duration
	// WakeDebounce is how long after a run is created work-available is pushed,
	// once for all runs created meanwhile. Defaults to 500 ms; negative: at
	// once and for each run.
	WakeDebounce time.Duration
	// JanitorInterval is how often overdue runs are marked lost. Defaults to 5 minutes.
	JanitorInterval time.Duration
	// KeepRuns is how many ended runs are remembered. Defaults to 10,000;
	// negative: none.
	KeepRuns int
	// WipeDataclips erases inputs when they are first read and keeps no outputs.
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
	// [Server.Transcript] returns. Defaults to 1,000; negative: none.
	TranscriptLimit int

	// Faults go wrong from the start, in this order; see [Server.AddFault]. Those
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
	if c.Mode, err = c.Mode.known(); err != nil {
		return c, err
	}
	if c.MaxQueued == 0 && c.Mode == Extended {
		c.MaxQueued = 1000
	}
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.Secret == "" {
		c.Secret = rand.Text()
	}
	if c.TranscriptLimit == 0 {
		c.TranscriptLimit = 1000
	}
	if c.FaultSeed == 0 {
		c.FaultSeed = 1 + mathrand.Uint64N(1<<32) // easily typed again
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// extensions are the options that only count in extended mode; nil otherwise.
func (c Config) extensions() *lightning.Extensions {
	if c.Mode != Extended {
		return nil
	}
	return &lightning.Extensions{
		Names: c.Extensions, Lease: c.Lease, ClaimAck: c.ClaimAck,
		StatusInterval: c.StatusInterval, StatusTimeout: c.StatusTimeout,
		MaxWait: c.MaxWait, AffinityWait: c.AffinityWait,
	}
}
