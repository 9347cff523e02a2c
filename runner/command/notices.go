package command

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/phxworker/phxworker/runner"
)

// mostNotices is how many notices wait for a process that does not read them.
// Those that come then are dropped.
const mostNotices = 16

// notices are on their way to the process that has a run.
type notices struct {
	waiting chan json.RawMessage
	over    chan struct{} // closed when the run is
	torn    bool          // one was written in part; to be read after passing
	passing sync.WaitGroup
}

func newNotices() *notices {
	return &notices{waiting: make(chan json.RawMessage, mostNotices), over: make(chan struct{})}
}

// passOn writes notices to the process, behind the run, until end is called.
func (n *notices) passOn(t *talk) {
	n.passing.Go(func() {
		err := <-t.written
		t.written <- err
		for err == nil {
			select {
			case notice := <-n.waiting:
				err = n.write(t.proc, notice)
			case <-n.over:
				return
			}
		}
	})
}

func (n *notices) write(proc *process, notice json.RawMessage) error {
	line, err := encode(struct {
		Type   string          `json:"type"`
		Notice json.RawMessage `json:"notice"`
	}{"notify", notice})
	if err != nil {
		return err // no JSON, which a server cannot send
	}
	if err := proc.write(line); err != nil {
		n.torn = true
		return err
	}
	return nil
}

// end returns when no notice is written any more, and reports whether all of them
// were whole.
func (n *notices) end() bool {
	close(n.over)
	n.passing.Wait()
	return !n.torn
}

var _ runner.Notifiable = (*Engine)(nil)

// Notify passes a notice on to the process that has the run; see
// docs/engine-protocol.md. One that comes when no process has it is dropped, and
// so is one behind many that the process has not read.
func (e *Engine) Notify(_ context.Context, run *runner.Run, notice json.RawMessage) {
	e.pool.mu.Lock()
	to := e.pool.notices[run]
	e.pool.mu.Unlock()
	if to == nil {
		return
	}
	select {
	case to.waiting <- notice:
	default:
	}
}

// listen makes it possible to notify the process that will have the run.
func (p *Pool) listen(run *runner.Run) (n *notices, stop func()) {
	n = newNotices()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notices[run] = n
	return n, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.notices, run)
	}
}
