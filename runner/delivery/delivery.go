// Package delivery tells the server what happens in a run, and brings what the run needs: everything that is pushed
// on the topic of a run, but for extensions, goes through here. It knows neither engines nor extensions.
//
// # The way of an event
//
// A [Delivery] is made once for a worker, and makes an [Outbox] for each run, whose methods append events to a queue.
// Another goroutine, in [Outbox.Deliver], sends the head of the queue, and takes it out once the server has acknowledged
// or refused it. Whatever could not be delivered is spooled, in a file for each run.
//
// # Order
//
// The events of one run are sent one at a time, in the order in which they came in; each waits for the server's reply
// to the one before. Runs do not wait for each other. The payload of an event is made when it is sent, so that it
// names only what the server has acknowledged.
//
// # Delivery
//
// An event that could not be sent, or whose outcome is unknown, is sent again once the topic is joined again. It counts
// as arrived once the server says ok to it, or refuses a second copy in Lightning's words for an event that is there;
// never for a crash. The rules are those of docs/delivery.md.
//
// # Back-pressure
//
// The methods of an Outbox block while it holds [Config.OutboxBytes] that the server has not acknowledged, at most
// until the context of [Outbox.WaitUntil] ends.
package delivery

import (
	"cmp"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
)

// Config says how the events of runs are delivered. The zero values are the defaults.
type Config struct {
	// MessageTimeout is how long an event may go unanswered before its topic is joined anew, which tells whether
	// it had arrived. Each time that the same event goes unanswered again, it is given twice as long. Defaults to
	// 30 s.
	MessageTimeout time.Duration
	// OutboxBytes bounds the events of one run that the server has not acknowledged yet. Defaults to 16 MiB.
	OutboxBytes int
	// NativeDataclips sends a step's output as a JSON object and not as a text with JSON in it, which is up to
	// twice as long: what is no object goes as {"value": …}. Lightning takes it from 2.19 on. A server that refuses
	// one form gets the other. Defaults to off.
	NativeDataclips bool
	// LogsAtMostOnce sends no log line again of which nobody knows whether it arrived. By default each arrives at
	// least once, and Lightning stores one that comes twice twice.
	LogsAtMostOnce bool
	// BatchLogs sends several lines in one message. Defaults to off.
	BatchLogs BatchLogs
	// Spool is the folder for what could not be reported; see [Spooled]. It should be there, and be the worker's
	// user's alone. Defaults to none: it is logged and lost.
	Spool string
}

// WithDefaults returns a copy of c with the zero fields filled that have a default.
func (c Config) WithDefaults() Config {
	c.MessageTimeout = cmp.Or(c.MessageTimeout, 30*time.Second)
	c.OutboxBytes = cmp.Or(c.OutboxBytes, 16<<20)
	return c
}

// BatchLogs says how lines are collected for run:batch_logs, which only newer versions of Lightning have. A server
// that does not know it crashes the run's topic; the lines then go one by one, and so do those of all later runs.
type BatchLogs struct {
	// Interval is how long a line may wait for others.
	Interval time.Duration
	// Limit is the most lines in a message. With less than 2 there are no batches.
	Limit int
}

// Stats is what was delivered since the [Delivery] was made.
type Stats struct {
	// Resent counts events that were sent once more, after a lost join.
	Resent uint64 `json:"events_resent"`
	// LogsShortened counts the lines that a note stands for at the server: they were over
	// the limit, or not what it takes.
	LogsShortened uint64 `json:"log_lines_shortened"`
	// Undelivered counts, by their names, the events that the server does not have, or is
	// not known to have: refused in every form, given up with their run, sent at most once
	// and lost, or never taken because the run ended while its outbox was full.
	Undelivered map[string]uint64 `json:"events_undelivered"`
	// Acknowledged is how long events took from their push to the server's answer.
	Acknowledged claim.Histogram `json:"acknowledgement_seconds"`
}

// Delivery is what the runs of a worker share. Its methods may be called concurrently.
type Delivery struct {
	cfg Config
	log *slog.Logger

	// batched is set once the server has taken a run:batch_logs, unbatched when it was found not to know it.
	batched, unbatched atomic.Bool
	// native tells that outputs go as objects. The server decides in the end: see learnForm.
	native atomic.Bool
	// warnUntold is for what is worth a line once: a server makes all of its tokens alike.
	warnUntold sync.Once

	topics sync.Map // *channel.Topic to nil, of the runs under way

	mu      sync.Mutex
	stats   Stats
	hurried time.Time // when hurry last had an effect
}

// New returns a Delivery.
func New(cfg Config, log *slog.Logger) *Delivery {
	d := &Delivery{cfg: cfg.WithDefaults(), log: log, stats: Stats{Undelivered: make(map[string]uint64)}}
	d.native.Store(d.cfg.NativeDataclips)
	return d
}

// learnForm has outputs go in the form that the server took after it had refused the other, so that they need not all be
// sent twice.
func (d *Delivery) learnForm(native bool) {
	if d.native.Swap(native) == native {
		return
	}
	took := map[bool]string{true: "JSON objects", false: "texts with JSON in them"}
	d.log.Warn("the server refuses outputs as "+took[!native]+"; they go as "+took[native]+" from now on", "configured", took[d.cfg.NativeDataclips])
}

// Open returns the outbox of a run, which takes events from now on. A nil permit is one for ever. The log is for the
// worker's operator.
func (d *Delivery) Open(run claim.Run, permit Permit, log *slog.Logger) *Outbox {
	o := &Outbox{
		delivery: d, run: run, permit: permit, log: log, epoch: 1,
		tokenEnd: run.Claimed.Add(lifetime(run.Token)),
		work:     make(chan struct{}, 1), room: make(chan struct{}),
	}
	o.limits.Store(new(Limits))
	o.Hide(nil)
	if o.untold = !o.tokenEnd.After(run.Claimed); o.untold {
		o.tokenEnd = run.Claimed.Add(untoldLife)
		d.warnUntold.Do(func() {
			d.log.Warn("the server's run tokens do not tell how long they live; what cannot be reported of a run is given up when it was claimed so long ago", "after", untoldLife)
		})
	}
	return o
}

// Stats returns the numbers so far.
func (d *Delivery) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	stats := d.stats
	stats.Undelivered = maps.Clone(stats.Undelivered)
	return stats
}

func (d *Delivery) count(change func(s *Stats)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.stats)
}

func (d *Delivery) undeliver(e event) {
	d.count(func(s *Stats) { s.Undelivered[e.name()]++ })
}

// hurryEvery is the least time between two calls to hurry that have an effect: a server that answers some things and
// crashes over others must not be asked without end.
const hurryEvery = time.Second

// hurry has the topics of all runs joined that back off: the server has just answered what it crashed over before, so
// they need not wait.
func (d *Delivery) hurry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.hurried) < hurryEvery {
		return
	}
	d.hurried = time.Now()
	for topic := range d.topics.Range {
		topic.(*channel.Topic).JoinNow()
	}
}
