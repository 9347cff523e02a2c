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
	mu   sync.Mutex // guards what follows
	ring []Exchange
	next int
	full bool
}

// NewTranscript returns a transcript of the last n messages.
func NewTranscript(n int) *Transcript { return &Transcript{ring: make([]Exchange, n)} }

func (t *Transcript) add(socket int, d Direction, binary bool, data []byte) {
	if t == nil || len(t.ring) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.ring[t.next]
	e.At, e.Socket, e.Direction, e.Binary, e.Size = time.Now(), socket, d, binary, len(data)
	e.Data = append(e.Data[:0], data[:min(len(data), maxRecorded)]...)
	t.next++
	if t.next == len(t.ring) {
		t.next, t.full = 0, true
	}
}

// Exchanges returns a copy of what is kept, oldest first.
func (t *Transcript) Exchanges() []Exchange {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept []Exchange
	if t.full {
		kept = append(kept, t.ring[t.next:]...)
	}
	kept = append(kept, t.ring[:t.next]...)
	for i := range kept {
		kept[i].Data = append([]byte(nil), kept[i].Data...)
	}
	return kept
}
