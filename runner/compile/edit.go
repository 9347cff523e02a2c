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

type edit struct {
	start, end int // what text replaces; equal for an insertion
	text       string
	anchor     int  // the offset in the original that text stands for
	side       side // orders edits with the same start
	span       int  // the length of what a wrap encloses
}

// side orders edits that start at one offset.
type side int

const (
	closing   side = iota // the end of a wrap: inner ones first
	inserting             // between what ends here and what starts here
	opening               // the start of a wrap: outer ones first
	replacing
)

// replace puts text in the place of [start, end), which is not empty.
func (e *edits) replace(start, end int, text string) {
	e.list = append(e.list, edit{start: start, end: end, text: text, anchor: start, side: replacing})
}

// insert puts text in at offset, to stand for the code at anchor.
func (e *edits) insert(offset int, text string, anchor int) {
	e.list = append(e.list, edit{start: offset, end: offset, text: text, anchor: anchor, side: inserting})
}

// wrap puts before and after around [start, end), which is not empty. Wraps may nest but not overlap: of two that
// start or end together the longer is the outer, and of two alike the later.
func (e *edits) wrap(start, end int, before, after string) {
	e.list = append(e.list,
		edit{start: start, end: start, text: before, anchor: start, side: opening, span: end - start},
		edit{start: end, end: end, text: after, anchor: start, side: closing, span: end - start})
}

// sorted returns the edits in the order of the text.
func (e *edits) sorted() []edit {
	order := make([]int, len(e.list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &e.list[i], &e.list[j]
		c := cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.side, b.side))
		if c != 0 {
			return c
		}
		inner := cmp.Or(cmp.Compare(a.span, b.span), cmp.Compare(i, j))
		if a.side == opening {
			return -inner
		}
		return inner
	})
	sorted := make([]edit, len(order))
	for i, n := range order {
		sorted[i] = e.list[n]
	}
	return sorted
}

// A fragment is text added at either end of the original, with the offset it stands for.
type fragment struct {
	text   string
	anchor int // nowhere if it stands for nothing in the original
}

const nowhere = -1

// A piece is a stretch of an edited text, up to the next piece.
type piece struct {
	at     int  // its offset in the edited text
	origin int  // the offset in the original it was copied from, or stands for; nowhere for neither
	copied bool // byte for byte
}

// apply returns the text with the edits made and head and tail added, and where each piece of it comes from.
func (e *edits) apply(text string, head, tail []fragment) (string, []piece) {
	var out strings.Builder
	out.Grow(len(text) + len(text)/4 + 256)
	pieces := make([]piece, 0, 2*len(e.list)+len(head)+len(tail)+1)

	add := func(s string, origin int, copied bool) {
		if s != "" {
			pieces = append(pieces, piece{at: out.Len(), origin: origin, copied: copied})
			out.WriteString(s)
		}
	}
	for _, f := range head {
		add(f.text, f.anchor, false)
	}
	done := 0
	for _, ed := range e.sorted() {
		add(text[done:ed.start], done, true)
		add(ed.text, ed.anchor, false)
		done = ed.end
	}
	add(text[done:], done, true)
	for _, f := range tail {
		add(f.text, f.anchor, false)
	}
	return out.String(), pieces
}

// sourceOf maps an offset in the edited text to the original.
func sourceOf(pieces []piece, at int) (int, bool) {
	i := sort.Search(len(pieces), func(i int) bool { return pieces[i].at > at }) - 1
	if i < 0 || pieces[i].origin == nowhere {
		return 0, false
	}
	if pieces[i].copied {
		return pieces[i].origin + at - pieces[i].at, true
	}
	return pieces[i].origin, true
}
