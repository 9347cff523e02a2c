package command

import (
	"sync/atomic"
	"time"
)

// memoryWatch kills a process that uses too much memory. The zero value of over
// and a nil done are those of one that watches nothing.
type memoryWatch struct {
	over atomic.Bool
	done chan struct{} // closed to stop it
	gone chan struct{}
}

const memoryInterval = 50 * time.Millisecond

// watchMemory watches by how much the memory of the process and its descendants
// grows from now on.
func watchMemory(p *process, limitMB int) *memoryWatch {
	w := &memoryWatch{}
	if limitMB <= 0 {
		return w
	}
	group := newGroupMemory(p.cmd.Process.Pid, p.tmp)
	limit := group.resident() + int64(limitMB)<<20
	w.done, w.gone = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(w.gone)
		ticker := time.NewTicker(memoryInterval)
		defer ticker.Stop()
		for {
			select {
			case <-w.done:
				return
			case <-ticker.C:
			}
			if group.resident() > limit && group.proportional() > limit {
				w.over.Store(true)
				p.kill()
				return
			}
		}
	}()
	return w
}

// exceeded reports whether the process was killed for its memory.
func (w *memoryWatch) exceeded() bool { return w.over.Load() }

func (w *memoryWatch) stop() {
	if w.done != nil {
		close(w.done)
		<-w.gone
	}
}
