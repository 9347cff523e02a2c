package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
)

// world is a server and its workers in a bubble.
type world struct {
	t        *testing.T
	schedule *schedule
	server   *mockserver.Server
	listener *wstest.Listener
	journal  *journal
	scripts  map[string]*script
	cfg      phxworker.Config
	hired    []*hand
	ended    []*hand
	aborted  bool
	resent   []phxworker.Resent

	mu       sync.Mutex
	executed map[string]int // how often each run was handed to an engine
	wrong    []string       // what the engines saw that must not be
}

// hand is a worker at work.
type hand struct {
	*phxworker.Worker

	world *world
	stop  context.CancelFunc
	done  chan struct{}
	err   error // of Run, once done

	mu      sync.Mutex
	running map[string]int // by queue
}

// live lets a schedule happen and returns what came of it. It must be called in a bubble.
func live(t *testing.T, s *schedule) *world {
	w := &world{
		t: t, schedule: s, listener: wstest.NewListener(), journal: newJournal(),
		scripts: make(map[string]*script), executed: make(map[string]int),
	}
	for _, script := range s.scripts {
		w.scripts[script.id] = script
	}
	var err error
	w.server, err = mockserver.New(mocktest.Config(s.server))
	require.NoError(t, err)
	front := &http.Server{Handler: w.server, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = front.Serve(w.listener)
	}()
	w.t.Cleanup(func() { // also of a schedule that failed halfway
		for _, h := range w.hired {
			h.stop()
			h.Abort()
			<-h.done
		}
		require.NoError(t, w.server.Close())
		require.NoError(t, front.Close())
		<-served
	})
	w.cfg = s.worker
	w.cfg.URL, w.cfg.Secret, w.cfg.Transport.NetDial = "ws://lightning.test/worker", w.server.Secret(), w.listener.DialContext
	w.cfg.Logger, w.cfg.Delivery.Spool = slog.New(w.journal), t.TempDir()
	for i := range 3 {
		w.server.AddCredential(fmt.Sprint("credential-", i), []byte(fmt.Sprintf(`{"secret":"hidden-%d"}`, i)))
	}
	for _, r := range s.rules {
		_, err := w.server.AddFault(r)
		require.NoError(t, err)
	}

	w.pass()
	w.clear()
	for len(w.hired) > 0 {
		w.dismiss(false)
	}
	w.resend()
	synctest.Wait()
	require.Zero(t, w.listener.Open(), "connections left open by the workers")
	return w
}

// pass lets the weather pass over the workers, while runs come in.
func (w *world) pass() {
	rng := rand.New(rand.NewPCG(w.schedule.seed, 1))
	for range w.schedule.workers {
		w.hire()
	}
	rest := w.schedule.scripts
	enqueue := func(n int) {
		for _, s := range rest[:n] {
			_, err := w.server.Enqueue(s.enqueued())
			require.NoError(w.t, err)
		}
		rest = rest[n:]
	}
	for _, g := range w.schedule.weather {
		enqueue(rng.IntN(len(rest) + 1))
		time.Sleep(g.after)
		w.strike(g, rng)
	}
	enqueue(len(rest))
	time.Sleep(time.Minute)
}

// strike lets a gust happen.
func (w *world) strike(g gust, rng *rand.Rand) {
	if g.swap {
		w.dismiss(g.abort)
		w.hire()
		return
	}
	if g.pause {
		defer w.pause(rng)()
	}
	rules := g.stretch
	if g.rule.Action != "" {
		rules = append(rules, g.rule)
	}
	for _, rule := range rules {
		id, err := w.server.AddFault(rule)
		require.NoError(w.t, err)
		if rule.Count < 0 {
			defer w.server.RemoveFault(id)
		}
	}
	time.Sleep(g.lasts)
}

// pause has the workers claim no more, and returns what ends that. Meanwhile their groups
// may be smaller than before.
func (w *world) pause(rng *rand.Rand) (resume func()) {
	for _, h := range w.hired {
		require.NoError(w.t, h.Pause(""))
		for queue, slots := range w.schedule.slots {
			require.NoError(w.t, h.Resize(queue, 1+rng.IntN(slots)))
		}
	}
	return func() {
		for _, h := range w.hired {
			for queue, slots := range w.schedule.slots {
				require.NoError(w.t, h.Resize(queue, slots))
			}
			require.NoError(w.t, h.Resume(""))
		}
	}
}

// clear ends the weather and waits until every run that the workers know of is
// over. A claim that was not answered is waited for as long as its join lives; so
// the weather ends with all connections lost.
func (w *world) clear() {
	w.server.ClearFaults()
	time.Sleep(2 * time.Minute) // a server that is being restarted is back then
	require.NoError(w.t, w.server.Kick(fault.Abnormal))
	deadline := time.Now().Add(6 * time.Hour)
	for !w.idle() {
		require.True(w.t, time.Now().Before(deadline), "runs are under way or waiting, hours after the weather cleared: %+v", w.server.Stats())
		time.Sleep(10 * time.Second)
	}
}

func (w *world) idle() bool {
	synctest.Wait()
	for _, h := range w.hired {
		for _, g := range h.Stats().Groups {
			if g.Open+g.Claimed+g.Running != g.Size {
				w.t.Errorf("slots were lost or made: %+v", g)
			}
			if g.Running > 0 {
				return false
			}
		}
	}
	return w.server.Stats().Available == 0
}

func (w *world) hire() {
	h := &hand{world: w, done: make(chan struct{}), running: make(map[string]int)}
	cfg := w.cfg
	cfg.Engine, cfg.Name = runner.Func(h.execute), fmt.Sprint("worker-", len(w.hired)+len(w.ended))
	var err error
	h.Worker, err = phxworker.New(cfg)
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(w.t.Context())
	h.stop = stop
	go func() {
		defer close(h.done)
		h.err = h.Run(ctx)
	}()
	w.hired = append(w.hired, h)
}

// dismiss stops the worker that was hired first.
func (w *world) dismiss(abort bool) {
	h := w.hired[0]
	h.stop()
	if abort {
		w.aborted = true
		time.Sleep(time.Second)
		h.Abort()
	}
	<-h.done
	err := h.err
	if errors.Is(err, phxworker.ErrAborted) {
		w.aborted, err = true, nil // its grace was over
	}
	require.NoError(w.t, err)
	w.hired, w.ended = w.hired[1:], append(w.ended, h)
}

// resend reports what was spooled; the server is well again.
func (w *world) resend() {
	cfg := w.cfg
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	var err error
	w.resent, err = phxworker.ResendSpool(ctx, cfg)
	require.NoError(w.t, err)
}

// execute watches over the slots and follows the script.
func (h *hand) execute(ctx context.Context, run *runner.Run) (any, error) {
	w := h.world
	s := w.scripts[run.ID]
	h.mu.Lock()
	h.running[s.queue]++
	over := h.running[s.queue] > w.schedule.slots[s.queue]
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running[s.queue]--
	}()
	w.mu.Lock()
	w.executed[run.ID]++
	if over {
		w.wrong = append(w.wrong, "more runs than slots in "+s.queue)
	}
	if s.input && string(run.Input) != `{"for":"`+s.id+`"}` {
		w.wrong = append(w.wrong, fmt.Sprintf("%s was executed on the input %q", s.id, run.Input))
	}
	for i := range min(s.credentials, len(s.steps)) {
		if string(run.Credential(job(i))) != fmt.Sprintf(`{"secret":"hidden-%d"}`, i) {
			w.wrong = append(w.wrong, fmt.Sprintf("%s was executed with the credential %q", s.id, run.Credential(job(i))))
		}
	}
	w.mu.Unlock()
	return s.execute(ctx, run)
}
