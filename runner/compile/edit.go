package compile

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// edits collects changes to a text by byte offset. Text is only put in or replaced, never moved, so that whatever is
// left of the original keeps its order and its lines.
type edits struct {
	list []edit
}

// An edit takes 48 bytes: a body can have several for each of its calls.
type edit struct {
	text       string
	start, end int32 // what text replaces; equal for an insertion
	anchor     int32 // the offset in the original that text stands for
	span       int32 // the length of what a wrap encloses
	order      int32 // of two alike
	side       side  // orders edits with the same start
}

// side orders edits that start at one offset.
type side uint8

const (
	closing   side = iota // the end of a wrap: inner ones first
	inserting             // between what ends here and what starts here
	opening               // the start of a wrap: outer ones first
	replacing
)

// replace puts text in the place of [start, end), which is not empty.
func (e *edits) replace(start, end int, text string) {
	e.add(start, end, text, start, replacing, 0)
}

// insert puts text in at offset, to stand for the code at anchor.
func (e *edits) insert(offset int, text string, anchor int) {
	e.add(offset, offset, text, anchor, inserting, 0)
}

// wrap puts before and after around [start, end), which is not empty. Wraps may nest but not overlap: of two that
// start or end together the longer is the outer, and of two alike the later.
func (e *edits) wrap(start, end int, before, after string) {
	e.add(start, start, before, start, opening, end-start)
	e.add(end, end, after, start, closing, end-start)
}

func (e *edits) add(start, end int, text string, anchor int, side side, span int) {
	//nolint:gosec // see maxBody
	e.list = append(e.list, edit{
		text: text, start: int32(start), end: int32(end), anchor: int32(anchor), span: int32(span), order: int32(len(e.list)), side: side,
	})
}

// sort puts the edits into the order of the text.
func (e *edits) sort() {
	slices.SortFunc(e.list, func(a, b edit) int {
		c := cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.side, b.side))
		if c != 0 {
			return c
		}
		inner := cmp.Or(cmp.Compare(a.span, b.span), cmp.Compare(a.order, b.order))
		if a.side == opening {
			return -inner
		}
		return inner
	})
}

// A fragment is text added at either end of the original, with the offset it stands for.
type fragment struct {
	text   string
	anchor int // nowhere if it stands for nothing in the original
}

const nowhere = -1

// A piece is a stretch of an edited text, up to the next piece. A module keeps all of its own.
type piece struct {
	at     int32 // its offset in the edited text
	origin int32 // the offset in the original it was copied from, or stands for; nowhere for neither
	copied bool  // byte for byte
}

// apply returns the text with the edits made and head and tail added, and where each piece of it comes from.
func (e *edits) apply(text string, head, tail []fragment) (string, []piece) {
	var out strings.Builder
	out.Grow(len(text) + 32*(len(e.list)+len(head)+len(tail))) // most of what is added is short
	pieces := make([]piece, 0, 2*len(e.list)+len(head)+len(tail)+1)

	add := func(s string, origin int, copied bool) {
		if s != "" {
			pieces = append(pieces, piece{at: int32(out.Len()), origin: int32(origin), copied: copied}) //nolint:gosec // see maxBody
			out.WriteString(s)
		}
	}
	for _, f := range head {
		add(f.text, f.anchor, false)
	}
	done := 0
	e.sort()
	for _, ed := range e.list {
		add(text[done:ed.start], done, true)
		add(ed.text, int(ed.anchor), false)
		done = int(ed.end)
	}
	add(text[done:], done, true)
	for _, f := range tail {
		add(f.text, f.anchor, false)
	}
	return out.String(), pieces
}

// sourceOf maps an offset in the edited text to the original.
func sourceOf(pieces []piece, at int) (int, bool) {
	i := sort.Search(len(pieces), func(i int) bool { return int(pieces[i].at) > at }) - 1
	if i < 0 || pieces[i].origin == nowhere {
		return 0, false
	}
	if pieces[i].copied {
		return int(pieces[i].origin) + at - int(pieces[i].at), true
	}
	return int(pieces[i].origin), true
}
