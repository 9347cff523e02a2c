package phoenix

import (
	"time"

	"github.com/gorilla/websocket"
)

const (
	// compressFrom is the size from which a message is compressed, if the
	// client offered it. RFC 7692 leaves the choice for each message to the
	// sender; below this, compressing costs more than it saves.
	compressFrom = 1 << 10
	// flushFrom bounds how much a burst of messages collects.
	flushFrom = 64 << 10
)

// write writes what the outbox gets until the last message, and closes the
// socket when its client has been silent for too long.
func (s *socket) write() {
	idle := time.NewTimer(s.endpoint.cfg.IdleTimeout)
	defer idle.Stop()
	late := time.NewTimer(time.Hour) // for replies that a fault delays
	defer late.Stop()
	var b batch
	for {
		select {
		case <-s.out.ready:
		case <-late.C:
		case <-idle.C:
			left := s.endpoint.cfg.IdleTimeout - time.Since(time.Unix(0, s.heard.Load()))
			if left <= 0 {
				s.log.Debug("socket idle")
				s.shut(websocket.CloseNormalClosure)
			} else {
				idle.Reset(left)
			}
			continue
		}
		var next time.Time
		var last bool
		var err error
		b, next, last, err = s.out.take(b.reset())
		if !next.IsZero() {
			late.Reset(time.Until(next))
		}
		if e := s.writeBatch(b); err == nil {
			err = e
		}
		if err != nil {
			s.log.Debug("connection lost", "error", err)
			s.shut(noCode)
			_ = s.wire.Close() // ends the reader
			return
		}
		if last {
			return
		}
	}
}

func (s *socket) writeBatch(b batch) error {
	start := 0
	for _, m := range b.messages {
		data := b.data[start:m.end]
		start = m.end
		if m.kind == websocket.TextMessage || m.kind == websocket.BinaryMessage {
			s.endpoint.cfg.Transcript.add(s.id, ToClient, m.kind == websocket.BinaryMessage, data)
			s.conn.EnableWriteCompression(len(data) >= compressFrom)
			if err := s.conn.WriteMessage(m.kind, data); err != nil {
				return err
			}
		} else if err := s.conn.WriteControl(m.kind, data, time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if s.wire.buffered() >= flushFrom {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.flush()
}

func (s *socket) flush() error {
	if s.closing.Load() {
		return s.wire.flush(closeTimeout)
	}
	return s.wire.flush(writeTimeout)
}
