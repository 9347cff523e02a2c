package channel

import "sync/atomic"

// State is what a socket is doing.
type State int

// The states of a socket. A socket is connecting also while it waits for the
// next attempt.
const (
	Connecting State = iota
	Connected
	Closed
)

func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Connected:
		return "connected"
	case Closed:
		return "closed"
	}
	return "unknown"
}

// Status is what a socket is doing, and why.
type Status struct {
	State State
	// Err is why there is no connection: a *DialError after a dial that failed,
	// the cause of the loss after a connection that ended, ErrClosed when closed.
	// It is nil while connected and before the first dial has failed.
	Err error
	// Attempts is how many dials have failed since the last connection.
	Attempts int
	// Connections is how many connections were made in all.
	Connections int
}

// Stats counts what a socket took from the server and had no use for.
type Stats struct {
	// Unknown is how many replies came too late, or never had a push, and how
	// many messages were for topics not joined.
	Unknown uint64
	// Stale is how many messages were for an earlier join of their topic.
	Stale uint64
	// Missed is how many messages were dropped because the buffer of their
	// topic was full.
	Missed uint64
}

// counters is what Stats is read from.
type counters struct {
	unknown, stale, missed atomic.Uint64
}
