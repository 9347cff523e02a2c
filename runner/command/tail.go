package command

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
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

var (
	// naming is a line that names an error, as "TypeError: …" or "Error [CODE]: …" do.
	naming = regexp.MustCompile(`(?i:error)(?: \[\w+\])?:|^panic: `)
	// idleTalk is a line that says nothing of why a program ended: of a stack, of an
	// object that is printed behind it, or the version with which Node ends.
	idleTalk = regexp.MustCompile(`^(?:Node\.js v.*|\s*at .*|\s+[\w$]+: .*|\W*)$`)
)

// tellingLine returns the first line that names an error, as programs with a stack
// trace behind it have, or else the last one that says something.
func tellingLine(text []byte) string {
	last, said := "", ""
	for raw := range bytes.Lines(text) {
		raw = bytes.TrimRightFunc(raw, unicode.IsSpace)
		line := strings.ToValidUTF8(string(bytes.TrimSpace(raw)), "\uFFFD")
		if naming.MatchString(line) {
			return shorten(line)
		}
		if line != "" {
			last = line
		}
		if !idleTalk.Match(raw) {
			said = line
		}
	}
	return shorten(cmp.Or(said, last))
}

// shorten cuts a line that nobody reads to its end.
func shorten(line string) string {
	const most = 300
	if len(line) <= most {
		return line
	}
	return strings.ToValidUTF8(line[:most], "") + "…"
}
