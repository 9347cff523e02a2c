package phoenix

import (
	"time"

	"github.com/phxworker/phxworker/mockserver/fault"
)

// Kick closes the sockets of a client, or all if the name is empty, and returns
// how many. The code 1006 closes without a close frame. It does not wait
// for their end.
func (e *Endpoint) Kick(name string, code int) int {
	open := e.open(name)
	for _, s := range open {
		s.shut(frameCode(code))
	}
	return len(open)
}

// Stall has the sockets of a client, or all if the name is empty, handle nothing
// for so long, and returns how many they are.
func (e *Endpoint) Stall(name string, d time.Duration) int {
	open := e.open(name)
	for _, s := range open {
		s.stall(d)
	}
	return len(open)
}

// Restart closes every socket as Kick does, and hangs up on every request for as
// long as it takes the server to be back.
func (e *Endpoint) Restart(code int, down time.Duration) {
	e.mu.Lock()
	e.down = time.Now().Add(down)
	open := e.openLocked("")
	e.mu.Unlock()
	for _, s := range open {
		s.shut(frameCode(code))
	}
}

func (e *Endpoint) isDown() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.down)
}

func (e *Endpoint) open(name string) []*socket {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.openLocked(name)
}

func (e *Endpoint) openLocked(name string) []*socket {
	var open []*socket
	for s := range e.sockets {
		if name == "" || name == s.name {
			open = append(open, s)
		}
	}
	return open
}

func frameCode(code int) int {
	if code == fault.Abnormal {
		return noCode
	}
	return code
}
