package command

import (
	"sync/atomic"
	"time"
)

// watch kills a process that has too much of something. The zero value watches nothing.
type watch struct {
	over atomic.Bool
	done chan struct{} // closed to stop it; nil if it watches nothing
	gone chan struct{}
}

// newWatch asks again and again whether the process has too much.
func newWatch(p *process, every time.Duration, tooMuch func() bool) *watch {
	w := &watch{done: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(w.gone)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-w.done:
				return
			case <-ticker.C:
			}
			if tooMuch() {
				w.over.Store(true)
				p.kill()
				return
			}
		}
	}()
	return w
}

// exceeded reports whether the process was killed for what it had.
func (w *watch) exceeded() bool { return w.over.Load() }

func (w *watch) stop() {
	if w.done != nil {
		close(w.done)
		<-w.gone
	}
}
