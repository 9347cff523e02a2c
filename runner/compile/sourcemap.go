package compile

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A SourceMap says where each part of a module comes from, as the Source Map
// Revision 3 has it, with what OpenFn's runtime looks for besides.
type SourceMap struct {
	Version        int      `json:"version"`
	Sources        []string `json:"sources"`
	SourcesContent []string `json:"sourcesContent"`
	Names          []string `json:"names"`
	Mappings       string   `json:"mappings"`
	// Operations are those of the module, in order.
	Operations []MappedOperation `json:"operations"`
}

// A MappedOperation names an operation in the messages of the runtime.
type MappedOperation struct {
	Line  int    `json:"line"`
	Order int    `json:"order"` // from 1
	Name  string `json:"name"`
}

// SourceMap returns the map of a module whose body goes by the name of file.
func (m *Module) SourceMap(file string) SourceMap {
	operations := make([]MappedOperation, len(m.Operations))
	for i, o := range m.Operations {
		operations[i] = MappedOperation{Line: o.Position.Line, Order: i + 1, Name: o.Name}
	}
	return SourceMap{
		Version: 3, Sources: []string{file}, SourcesContent: []string{m.body}, Names: []string{},
		Mappings: m.mappings(), Operations: operations,
	}
}

// mappings has a segment for the start of each word and for every other
// character: readers take the segment before a place for the place itself.
func (m *Module) mappings() string {
	var w mappingWriter
	source := cursor{text: m.body}
	piece, column, inWord := -1, 0, false
	for i := 0; i < len(m.Code); {
		starts := false
		for piece+1 < len(m.pieces) && int(m.pieces[piece+1].at) <= i {
			piece++
			starts = true
		}
		if n := V8.lineEnd(m.Code[i:]); n > 0 {
			w.line()
			column, inWord = 0, false
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(m.Code[i:])
		word := unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '$'
		if starts || !word || !inWord {
			if offset, ok := sourceOf(m.pieces[piece:piece+1], i); ok {
				w.segment(column, source.at(offset))
			}
		}
		inWord = word
		column += V8.width(r)
		i += n
	}
	return w.out.String()
}

// mappingWriter writes segments; each number in them counts from the one before.
type mappingWriter struct {
	out       strings.Builder
	column    int // of the last segment, in the module
	original  Position
	continues bool // the line has a segment
}

func (w *mappingWriter) line() {
	w.out.WriteByte(';')
	w.column, w.continues = 0, false
}

func (w *mappingWriter) segment(column int, original Position) {
	if w.continues {
		w.out.WriteByte(',')
	}
	last := w.original
	if last.Line == 0 {
		last = Position{Line: 1, Column: 1}
	}
	w.number(column - w.column)
	w.number(0) // the only source
	w.number(original.Line - last.Line)
	w.number(original.Column - last.Column)
	w.column, w.original, w.continues = column, original, true
}

// number writes five bits a digit, the lowest of all for the sign.
func (w *mappingWriter) number(n int) {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	const more = 32
	bits := n << 1
	if n < 0 {
		bits = -n<<1 | 1
	}
	for ; bits >= more; bits >>= 5 {
		w.out.WriteByte(digits[bits&31|more])
	}
	w.out.WriteByte(digits[bits])
}
