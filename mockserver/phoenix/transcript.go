package phoenix

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxRecorded is how much of one message a transcript keeps, in bytes.
	maxRecorded = 256 << 10
	// maxTranscript is how much it keeps of all of them.
	maxTranscript = 64 << 20
	// exchangeSize is what a message takes beside its bytes, about.
	exchangeSize = 160
)

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

// MarshalText writes what String returns.
func (d Direction) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Exchange is one websocket message.
type Exchange struct {
	At        time.Time
	Socket    int // counts the connections from 1
	Direction Direction
	// Topic and Event are those of the frame; empty if the message is none.
	Topic, Event string
	Binary       bool
	// Data is the message, decompressed, or its first 256 KiB.
	Data []byte
	// Size is the length of the whole message, in bytes.
	Size int
}

// Transcript keeps the last messages of all sockets, 64 MiB of them at most: those a client sent when
// they were received, those to a client when they were written. It
// overwrites the oldest in place, so that keeping it costs a copy a message
// and no garbage. A nil Transcript keeps nothing.
type Transcript struct {
	limit int

	mu    sync.Mutex // guards what follows
	ring  []Exchange
	first int           // the oldest
	count int           // how many there are
	bytes int           // that they take
	all   int           // how many there were
	more  chan struct{} // closed with the next message; nil while nobody waits for it

	forgot time.Time // when the last one came that is kept no more
}

// NewTranscript returns a transcript of the last n messages.
func NewTranscript(n int) *Transcript { return &Transcript{limit: n} }

// add keeps a message. The head is that of its frame.
func (t *Transcript) add(e Exchange, data []byte) {
	if t == nil || t.limit <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	place := t.placeLocked()
	e.At, e.Size, e.Data = time.Now(), len(data), place.Data[:0]
	e.Data = append(e.Data, data[:min(len(data), maxRecorded)]...)
	*place = e
	t.bytes += cap(e.Data) + exchangeSize
	for t.bytes > maxTranscript {
		t.dropLocked().Data = nil
	}
	t.all++
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
}

// placeLocked returns where the next message goes: behind the others, and once there are
// enough of them, in the place of the oldest.
func (t *Transcript) placeLocked() *Exchange {
	if t.count == t.limit {
		t.dropLocked()
	}
	if t.count == len(t.ring) {
		grown := make([]Exchange, min(max(64, 2*t.count), t.limit))
		n := copy(grown, t.ring[t.first:])
		copy(grown[n:], t.ring[:t.first])
		t.ring, t.first = grown, 0
	}
	t.count++
	return &t.ring[(t.first+t.count-1)%len(t.ring)]
}

// dropLocked forgets the oldest message, and returns its place.
func (t *Transcript) dropLocked() *Exchange {
	oldest := &t.ring[t.first]
	t.first = (t.first + 1) % len(t.ring)
	t.count--
	t.bytes -= cap(oldest.Data) + exchangeSize
	t.forgot = oldest.At
	return oldest
}

// Exchanges returns a copy of what is kept, oldest first.
func (t *Transcript) Exchanges() []Exchange {
	return t.pick(func(*Exchange) bool { return true })
}

// Topic returns a copy of what is kept of a topic, oldest first, and whether that is all that there was since a moment.
func (t *Transcript) Topic(name string, since time.Time) (kept []Exchange, whole bool) {
	kept = t.pick(func(e *Exchange) bool { return e.Topic == name })
	return kept, t.reaches(since)
}

// reaches reports whether nothing was forgotten since a moment.
func (t *Transcript) reaches(since time.Time) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.forgot.Before(since)
}

func (t *Transcript) pick(is func(*Exchange) bool) (kept []Exchange) {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.count {
		if e := &t.ring[(t.first+i)%len(t.ring)]; is(e) {
			kept = append(kept, *e)
			last := &kept[len(kept)-1]
			last.Data = append([]byte(nil), last.Data...)
		}
	}
	return kept
}

// lastLocked returns a copy of the last n messages, oldest first.
func (t *Transcript) lastLocked(n int) []Exchange {
	last := make([]Exchange, n)
	for i := range last {
		last[i] = t.ring[(t.first+t.count-n+i)%len(t.ring)]
		last[i].Data = slices.Clone(last[i].Data)
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
	return t.lastLocked(max(0, min(t.all-n, t.count))), t.all, t.more
}
