package phoenix

import (
	"sync"
	"time"
)

// maxRecorded is how much of one message a transcript keeps, in bytes.
const maxRecorded = 16 << 10

// Direction says which way a message went.
type Direction int

// The two directions.
const (
	FromClient Direction = iota
	ToClient
)

func (d Direction) String() string {
	if d == FromClient {
		return "from client"
	}
	return "to client"
}

// Exchange is one websocket message.
type Exchange struct {
	At        time.Time
	Socket    int // counts the connections from 1
	Direction Direction
	Binary    bool
	// Data is the message, decompressed, or its first 16 KiB.
	Data []byte
	// Size is the length of the whole message, in bytes.
	Size int
}

// Transcript keeps the last messages of all sockets: those a client sent when
// they were received, those to a client when they were written. It
// overwrites the oldest in place, so that keeping it costs a copy a message
// and no garbage. A nil Transcript keeps nothing.
type Transcript struct {
	limit int

	mu   sync.Mutex // guards what follows
	ring []Exchange
	next int           // the oldest, once it is full
	all  int           // how many there were
	more chan struct{} // closed with the next message; nil while nobody waits for it
}

// NewTranscript returns a transcript of the last n messages.
func NewTranscript(n int) *Transcript { return &Transcript{limit: n} }

func (t *Transcript) add(socket int, d Direction, binary bool, data []byte) {
	if t == nil || t.limit <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.placeLocked()
	e.At, e.Socket, e.Direction, e.Binary, e.Size = time.Now(), socket, d, binary, len(data)
	e.Data = append(e.Data[:0], data[:min(len(data), maxRecorded)]...)
	t.all++
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
}

// placeLocked returns where the next message goes: behind the others, and once there are
// enough of them, in the place of the oldest.
func (t *Transcript) placeLocked() *Exchange {
	if len(t.ring) < t.limit {
		t.ring = append(t.ring, Exchange{})
		return &t.ring[len(t.ring)-1]
	}
	oldest := &t.ring[t.next]
	t.next = (t.next + 1) % t.limit
	return oldest
}

// Exchanges returns a copy of what is kept, oldest first.
func (t *Transcript) Exchanges() []Exchange {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastLocked(len(t.ring))
}

// lastLocked returns a copy of the last n messages, oldest first.
func (t *Transcript) lastLocked(n int) []Exchange {
	last := make([]Exchange, n)
	for i := range last {
		e := t.ring[(t.next+len(t.ring)-n+i)%len(t.ring)]
		e.Data = append([]byte(nil), e.Data...)
		last[i] = e
	}
	return last
}

// Follow returns what came behind the first n messages of all, as far as it is still kept, how many there
// were of all, and a channel that is closed when there are more. To follow the messages, begin with 0
// and ask each time with the count of the time before. A nil Transcript has none, and never more.
func (t *Transcript) Follow(n int) (news []Exchange, count int, more <-chan struct{}) {
	if t == nil {
		return nil, 0, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return t.lastLocked(max(0, min(t.all-n, len(t.ring)))), t.all, t.more
}
