package command

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// maxTail is how much of its stderr is kept of a process.
const maxTail = 16 << 10

// tail keeps the last of what was written to it.
type tail struct {
	mu   sync.Mutex
	last []byte // may be twice as long as is kept
	all  int    // bytes that were written so far
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	t.all += len(b)
	if len(t.last) > 2*maxTail {
		t.last = append(t.last[:0], t.last[len(t.last)-maxTail:]...)
	}
}

// written returns how many bytes were written so far.
func (t *tail) written() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all
}

// since returns a copy of what is kept of all but the first bytes, from the
// beginning of a line if something went before that is not kept.
func (t *tail) since(first int) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last[max(len(t.last)-(t.all-first), 0):]
	if len(last) > maxTail {
		last = last[len(last)-maxTail:]
		if _, after, found := bytes.Cut(last, []byte("\n")); found {
			last = after
		}
	}
	return slices.Clone(last)
}

// tellingLine returns the first line that speaks of an error, as programs with a
// stack trace behind it have, or else the last line.
func tellingLine(text []byte) string {
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte("rror:")) {
			return lastLine(line)
		}
	}
	return lastLine(text)
}

// lastLine returns the last line that is not empty.
func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return strings.ToValidUTF8(string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:])), "\uFFFD")
}
