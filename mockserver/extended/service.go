package extended

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// Service is a Lightning that knows the extensions.
//
// One goroutine does what time brings, and answers the claims that wait. Whoever
// makes a run available, or changes who may have it, stirs it; it looks at
// everything each time, so that no stir is lost.
type Service struct {
	*lightning.Service

	cfg     Config
	log     *slog.Logger
	stirred chan struct{} // capacity 1
	stop    context.CancelFunc
	done    sync.WaitGroup

	// Service.Lock guards what follows.
	agenda  agenda
	seats   seats
	workers map[string]*member // by worker_id
	waits   []*wait            // claims, in the order they came
	answers []answer           // for claims that waited
	news    []news             // for the log
	stats   Stats
}

var _ phoenix.App = (*Service)(nil)

// news is a line for the log, written when no lock is held.
type news struct {
	message string
	attrs   []any
}

// New returns a running service.
func New(plain lightning.Config, cfg Config) (*Service, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	x := &Service{cfg: cfg, log: plain.Logger, stirred: make(chan struct{}, 1), workers: make(map[string]*member)}
	if x.log == nil {
		x.log = slog.New(slog.DiscardHandler)
	}
	plain.Beyond = watcher{x}
	if x.Service, err = lightning.New(plain); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	x.stop = stop
	x.done.Go(func() { x.run(ctx) })
	return x, nil
}

// Close is that of [lightning.Service].
func (x *Service) Close() {
	x.stop()
	x.done.Wait()
	x.Service.Close()
}

// Join implements [phoenix.App]: what Lightning would answer, with what was agreed on.
func (x *Service) Join(t *phoenix.Topic, payload []byte) (phoenix.Channel, phoenix.Reply) {
	channel, reply := x.Service.Join(t, payload)
	if id, ok := strings.CutPrefix(t.Name(), "run:"); ok {
		return x.joinRun(t, id, payload, channel, reply)
	}
	if channel == nil {
		return nil, reply
	}
	return x.joinQueue(t, payload, channel)
}

func (x *Service) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		answers, lines, next := x.turn()
		for _, a := range answers {
			x.give(a)
		}
		for _, line := range lines {
			x.log.Warn(line.message, line.attrs...)
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		select {
		case <-x.stirred:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// turn does what is due and matches runs with the claims that wait for some.
func (x *Service) turn() (answers []answer, lines []news, next time.Time) {
	x.Lock()
	defer x.Unlock()
	now := time.Now()
	next = x.agenda.pass(now)
	x.matchLocked(now)
	answers, x.answers = x.answers, nil
	lines, x.news = x.news, nil
	return answers, lines, next
}

// stir has the goroutine take a turn.
func (x *Service) stir() {
	select {
	case x.stirred <- struct{}{}:
	default:
	}
}

// inLocked has something done after so much time.
func (x *Service) inLocked(d time.Duration, do func(now time.Time)) *deadline {
	due := x.agenda.add(time.Now().Add(d), do)
	if due.index == 0 {
		x.stir() // it is the next now
	}
	return due
}

func (x *Service) tellLocked(message string, attrs ...any) {
	x.news = append(x.news, news{message: message, attrs: attrs})
}
