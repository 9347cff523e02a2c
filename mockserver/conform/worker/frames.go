package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// seen is a frame as it went over the wire.
type seen struct {
	at      time.Time
	place   int // among all frames of the case, from 0
	socket  int
	sent    bool // by the worker
	joinRef string
	ref     string
	topic   string
	event   string
	payload json.RawMessage // may be cut off
	size    int
	text    string // for the report
}

// readFrame reads as much of a frame as is there: a transcript keeps only the beginning of long ones.
func readFrame(e mockserver.Exchange) seen {
	f := seen{at: e.At, socket: e.Socket, sent: e.Direction == phoenix.FromClient, size: e.Size}
	if e.Binary {
		f.readBinary(e.Data)
		f.text = fmt.Sprintf("%q (binary, %d bytes)", cut(e.Data), e.Size)
		return f
	}
	f.text = string(cut(e.Data))
	if e.Size > len(cut(e.Data)) {
		f.text += fmt.Sprintf(" … (%d bytes)", e.Size)
	}
	f.readText(e.Data)
	return f
}

func (f *seen) readText(data []byte) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var refs [2]any
	if _, err := dec.Token(); err != nil {
		return
	}
	for _, into := range []any{&refs[0], &refs[1], &f.topic, &f.event} {
		if dec.Decode(into) != nil {
			return
		}
	}
	f.joinRef, f.ref = refText(refs[0]), refText(refs[1])
	rest := bytes.TrimPrefix(bytes.TrimSpace(data[dec.InputOffset():]), []byte(","))
	f.payload = bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("]"))
}

func refText(ref any) string {
	if ref == nil {
		return ""
	}
	return fmt.Sprint(ref)
}

// readBinary reads a binary push or reply: the lengths of four texts, then these, then the payload.
func (f *seen) readBinary(data []byte) {
	const head = 5
	if len(data) < head || data[0] > 1 {
		return
	}
	rest := data[head:]
	var texts [4]string
	for i, n := range data[1:head] {
		if int(n) > len(rest) {
			return
		}
		texts[i], rest = string(rest[:n]), rest[n:]
	}
	f.joinRef, f.ref, f.topic, f.event = texts[0], texts[1], texts[2], texts[3]
	if data[0] == 1 { // the last text is the status of a reply
		f.event = "phx_reply"
		f.payload = json.RawMessage(`{"status":"` + texts[3] + `"}`)
	}
}

const maxText = 2000 // bytes of a frame in a report

func cut(data []byte) []byte { return data[:min(len(data), maxText)] }

// into reads the payload; what is missing keeps its zero value.
func (f seen) into(v any) { _ = json.Unmarshal(f.payload, v) }

// has reports whether the payload has a field, whatever its value.
func (f seen) has(field string) bool {
	var fields map[string]json.RawMessage
	f.into(&fields)
	_, ok := fields[field]
	return ok
}

// isOK reports whether the frame is a reply with the status ok.
func (f seen) isOK() bool {
	var reply struct{ Status string }
	f.into(&reply)
	return f.event == "phx_reply" && reply.Status == "ok"
}

// run is the id of the run whose topic the frame is on.
func (f seen) run() string {
	id, ok := strings.CutPrefix(f.topic, "run:")
	if !ok {
		return ""
	}
	return id
}

func (f seen) frame(began time.Time) suite.Frame {
	d := suite.ToClient
	if f.sent {
		d = suite.ToServer
	}
	return suite.Frame{After: max(1, f.at.Sub(began)), Connection: f.socket, Direction: d, Topic: f.topic, Event: f.event, Text: f.text}
}
