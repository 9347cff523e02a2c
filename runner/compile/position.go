package compile

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Position is a place in a text. Lines end as ECMAScript says: at \n, \r\n, \r, U+2028 or U+2029.
type Position struct {
	Line   int // from 1
	Column int // from 1, in UTF-16 code units
}

// Counting is how an engine counts lines and columns in the positions it reports.
type Counting int

const (
	// V8 counts as [Position] does.
	V8 Counting = iota
	// QuickJS ends lines at \n only, and counts columns in characters, not in code units.
	QuickJS
)

func (c Counting) String() string {
	switch c {
	case V8:
		return "V8"
	case QuickJS:
		return "QuickJS"
	}
	return "Counting(" + strconv.Itoa(int(c)) + ")"
}

// Original maps a place in the module, as an engine reports it for a run-time error, to the job's body. A place in text
// that the compiler added maps to the code it was added for. False is for what belongs to no part of the body, such
// as the imports, and for a place outside the module.
func (m *Module) Original(line, column int, by Counting) (Position, bool) {
	offset, ok := m.OriginalOffset(line, column, by)
	if !ok {
		return Position{}, false
	}
	return positionAt(m.body, offset), true
}

// OriginalOffset is Original as an offset in bytes.
func (m *Module) OriginalOffset(line, column int, by Counting) (int, bool) {
	at, ok := offsetAt(m.Code, Position{Line: line, Column: column}, by)
	if !ok {
		return 0, false
	}
	return sourceOf(m.pieces, at)
}

// positionAt is the position of a byte offset.
func positionAt(text string, offset int) Position {
	c := cursor{text: text}
	return c.at(offset)
}

// A cursor finds positions in a text. Asked for offsets in any order it reads the text once, and then
// no more of it than the stretch between two marks.
type cursor struct {
	text string
	mark
	marks []mark // the first place at or behind each multiple of stretch that was read
}

type mark struct {
	offset   int
	position Position
}

const stretch = 1 << 10

// at is the position of a byte offset. An offset inside a character or a line end counts as where that starts.
func (c *cursor) at(offset int) Position {
	if c.marks == nil {
		c.mark = mark{position: Position{Line: 1, Column: 1}}
		c.marks = append(c.marks, c.mark)
	}
	if near := c.before(max(offset, 0)); offset < c.offset || near.offset > c.offset {
		c.mark = near
	}
	for c.offset < min(offset, len(c.text)) {
		next := Position{Line: c.position.Line + 1, Column: 1}
		n := V8.lineEnd(c.text[c.offset:])
		if n == 0 {
			var r rune
			r, n = utf8.DecodeRuneInString(c.text[c.offset:])
			next = Position{Line: c.position.Line, Column: c.position.Column + V8.width(r)}
		}
		if c.offset+n > offset {
			break
		}
		c.mark = mark{offset: c.offset + n, position: next}
		if c.offset >= len(c.marks)*stretch {
			c.marks = append(c.marks, c.mark)
		}
	}
	return c.position
}

// before returns the last mark that is not behind an offset.
func (c *cursor) before(offset int) mark {
	i := min(offset/stretch, len(c.marks)-1)
	if c.marks[i].offset > offset {
		i--
	}
	return c.marks[i]
}

// offsetAt is the byte offset of a position. A column past the end of its line is taken as that end, for engines may
// report the place just after the last character.
func offsetAt(text string, p Position, by Counting) (int, bool) {
	if p.Line < 1 || p.Column < 1 {
		return 0, false
	}
	i := 0
	for line := 1; line < p.Line; {
		if i >= len(text) {
			return 0, false
		}
		if n := by.lineEnd(text[i:]); n > 0 {
			line++
			i += n
			continue
		}
		i++
	}
	for column := 1; column < p.Column && i < len(text) && by.lineEnd(text[i:]) == 0; {
		r, n := utf8.DecodeRuneInString(text[i:])
		column += by.width(r)
		i += n
	}
	return i, true
}

// lineEnd is the length of the line terminator that text starts with, 0 if it starts with none.
func (c Counting) lineEnd(text string) int {
	switch {
	case text[0] == '\n':
		return 1
	case c == QuickJS:
		return 0
	case text[0] == '\r':
		if len(text) > 1 && text[1] == '\n' {
			return 2
		}
		return 1
	case strings.HasPrefix(text, "\u2028"), strings.HasPrefix(text, "\u2029"):
		return 3
	}
	return 0
}

// width is what a character adds to the column.
func (c Counting) width(r rune) int {
	if c != QuickJS && r > 0xFFFF {
		return 2
	}
	return 1
}
