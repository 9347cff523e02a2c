package channel

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// State is what a socket is doing.
type State int

// The states of a socket. It is also connecting while it waits for the next dial.
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
	// Err is why there is no connection: a *DialError after a failed dial, the cause after a lost
	// connection, ErrClosed when closed. It is nil while connected, and until the first dial has
	// failed.
	Err error
	// Attempts is how many dials have failed since the last connection.
	Attempts int
	// Connections is how many connections were made in all.
	Connections int
}

// Stats has the counts of a socket over all its connections.
type Stats struct {
	// Unknown counts replies that came too late or without a push, and messages for topics that are not
	// joined.
	Unknown uint64
	// Stale counts messages for an earlier join of their topic.
	Stale uint64
	// Missed counts messages that were dropped because the buffer of their topic was full.
	Missed uint64
	// RoundTrip is how long the server took to answer the latest heartbeat; zero before the first.
	RoundTrip time.Duration
	// Lost counts, by cause, the connections that were lost and the dials that failed. It is nil if
	// there were none.
	Lost map[Cause]uint64
}

// Cause is why a connection was lost or could not be made.
type Cause string

// The causes.
const (
	CauseDial      Cause = "dial"      // the dial failed
	CauseHeartbeat Cause = "heartbeat" // the server did not answer a heartbeat
	CauseClosed    Cause = "closed"    // the server closed it, with a close frame
	CauseNetwork   Cause = "network"   // it broke
	CauseProtocol  Cause = "protocol"  // the server sent what cannot be read
)

// causeOf classifies the error that a connection ended with.
func causeOf(err error) Cause {
	closed, ok := errors.AsType[*websocket.CloseError](err)
	switch {
	case errors.As(err, new(*DialError)):
		return CauseDial
	case errors.Is(err, errHeartbeat):
		return CauseHeartbeat
	case ok && closed.Code != websocket.CloseAbnormalClosure: // this code means that there was no close frame
		return CauseClosed
	case errors.Is(err, errUnreadable):
		return CauseProtocol
	}
	return CauseNetwork
}

// counters is what Stats is read from.
type counters struct {
	unknown, stale, missed atomic.Uint64
	roundTrip              atomic.Int64 // nanoseconds

	mu   sync.Mutex
	lost map[Cause]uint64
}

func (c *counters) lose(cause Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		c.lost = make(map[Cause]uint64)
	}
	c.lost[cause]++
}

func (c *counters) read() Stats {
	c.mu.Lock()
	lost := maps.Clone(c.lost)
	c.mu.Unlock()
	return Stats{
		Unknown: c.unknown.Load(), Stale: c.stale.Load(), Missed: c.missed.Load(),
		RoundTrip: time.Duration(c.roundTrip.Load()), Lost: lost,
	}
}
