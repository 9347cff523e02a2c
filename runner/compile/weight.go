package compile

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxNesting bounds how deep a body may nest. The parser and the analysis recurse, and a Go stack that reaches
	// its limit ends the process, with no way to recover. The parser needs about 5 KB a level, the limit is 1 GB.
	maxNesting = 50_000
	// maxParameterNesting bounds arrow functions inside the parameters of arrow functions: the parser reads each such
	// list twice, so every level doubles the time.
	maxParameterNesting = 8
)

// A weigher counts the tokens of a source before it is parsed, because the memory that parsing takes goes by them: a string
// of a megabyte is one token, a megabyte of `x=1;` is a million. It may count too many, and never counts many too few. It
// takes a string, a part of a template or a regular expression for one token, and a comment for none. Only a parser can
// tell what some slashes begin. From such a slash on, and from a string, template, comment or regular expression that has no
// end, the weigher takes the rest of the source for code, in which quotes and slashes are tokens like others.
//
// It finds as well where a source goes beyond what the parser can be trusted with. It knows no grammar: all tokens since the
// last comma or semicolon, at each level of brackets, count as nested, for so it is in `a = b = c` and `if (a) if (b)`.
type weigher struct {
	source string
	at     int
	count  int
	open   []bracket
	last   before
	plain  bool // all that follows counts as code
	// since is the count at the last comma or semicolon of this level; under is how deep the level itself is.
	since, under int
	arrows       int // how deep parameter lists nest in what was read of this level
	nested       int // the offset at which the source nests too deeply, -1 if it does not
}

// A bracket is one that is open.
type bracket struct {
	kind  byte // what closes it; '`' for what is closed by a brace and goes on as a template
	head  bool // of an if or a loop, behind which a slash begins a regular expression
	count int  // of the tokens before it
	// What the weigher noted of the level outside.
	since, under, arrows int
}

// before is what stands before a slash.
type before uint8

const (
	operation before = iota // a regular expression follows
	value                   // a division follows
	control                 // a keyword whose parentheses are a head
	member                  // a dot: the next word is no keyword
	dots                    // what follows may be a keyword or not
	unclear
)

// manyTokens is where counting ends, far beyond any bound: what is read again within what is read again doubles for each level.
const manyTokens = 1 << 40

// sizeOf returns the size of a source. Of its tokens those that the parser reads twice are counted twice.
func sizeOf(source string) size {
	w := weigher{source: source, nested: -1}
	for w.at < len(w.source) {
		w.next()
		if w.nested < 0 && (w.under+w.count-w.since > maxNesting || w.arrows > maxParameterNesting) {
			w.nested = w.at - 1
		}
	}
	return size{tokens: w.count, bytes: len(source), nested: w.nested}
}

// Depth returns how many tokens deep code nests for a parser that recurses, at most. It may be too many and is never far
// too few: see [weigher].
func Depth(source string) int {
	w := weigher{source: source, nested: -1}
	most := 0
	for w.at < len(w.source) {
		w.next()
		most = max(most, w.under+w.count-w.since)
	}
	return most
}

func (w *weigher) next() {
	switch c := w.source[w.at]; {
	case c == ' ', c >= '\t' && c <= '\r':
		w.at++
	case isWordByte(c):
		w.word()
	case w.plain:
		w.bracket(c)
	case c == '"' || c == '\'':
		w.skip(stringEnd(w.source, w.at))
	case c == '`':
		w.template()
	case c == '/':
		w.slash()
	default:
		w.bracket(c)
	}
}

// skip takes the token up to an offset as a value; with 0, it has no end.
func (w *weigher) skip(end int) {
	if end == 0 {
		w.plain = true
		end = w.at + 1
	}
	w.count++
	w.at, w.last = end, value
	if w.source[end-1] == '{' { // code in a template
		w.last = operation
	}
}

func (w *weigher) word() {
	start, plain := w.at, true
	for w.at < len(w.source) && isWordByte(w.source[w.at]) {
		if c := w.source[w.at]; c >= utf8.RuneSelf || c == '\\' {
			plain = false
			w.count++
		}
		w.at++
	}
	w.count++
	switch {
	case !plain, w.last == dots: // there may be a space in it that only Unicode knows
		w.last = unclear
		return
	case w.last == member:
		w.last = value
		return
	}
	switch w.source[start:w.at] {
	case "if", "while", "for", "with":
		w.last = control
	case "case", "delete", "do", "else", "extends", "default", "in", "instanceof", "new", "return", "throw", "typeof", "void":
		w.last = operation
	case "await", "of", "yield", "async", "let", "static":
		w.last = unclear
	default:
		w.last = value
	}
}

// template takes a part of a template, which begins here behind a quote or a brace.
func (w *weigher) template() {
	end := templateEnd(w.source, w.at+1)
	if end > 0 && w.source[end-1] == '{' {
		w.opens('`', false)
	}
	w.skip(end)
}

func (w *weigher) slash() {
	rest := w.source[w.at+1:]
	switch {
	case strings.HasPrefix(rest, "/"), strings.HasPrefix(rest, "*"):
		end := commentEnd(w.source, w.at)
		if end == 0 {
			w.skip(0)
			return
		}
		w.at = end
	case w.last == value:
		w.bracket('/')
	case w.last == operation:
		w.skip(regexpEnd(w.source, w.at))
	default:
		w.skip(0)
	}
}

// bracket takes a character of its own.
func (w *weigher) bracket(c byte) {
	w.count++
	w.at++
	last := w.last
	w.last = operation
	switch c {
	case '(', '[', '{':
		w.opens(closer(c), last == control)
	case ')', ']', '}':
		w.closes(c)
	case ',', ';':
		w.since = w.count
	case '.', '#':
		if w.last = member; c == '.' && last == member {
			w.last = dots
		}
	case '+', '-':
		if w.at > 1 && w.source[w.at-2] == c {
			w.last = unclear
		}
	}
}

// opens begins a level of brackets.
func (w *weigher) opens(kind byte, head bool) {
	w.open = append(w.open, bracket{kind: kind, head: head, count: w.count, since: w.since, under: w.under, arrows: w.arrows})
	w.under += w.count - w.since
	w.since, w.arrows = w.count, 0
}

func closer(c byte) byte {
	return map[byte]byte{'(': ')', '[': ']', '{': '}'}[c]
}

// closes takes a bracket that closes the last open one.
func (w *weigher) closes(c byte) {
	n := len(w.open) - 1
	if n < 0 {
		w.plain = true
		return
	}
	b := w.open[n]
	w.open = w.open[:n]
	if c == ')' && arrowFollows(w.source[w.at:]) {
		w.arrows++
		w.count = min(2*w.count-b.count, manyTokens) // the parser reads parameters again
	}
	// Of what is around the brackets they are one token.
	w.since, w.under, w.arrows = b.since+w.count-b.count, b.under, max(w.arrows, b.arrows)
	switch {
	case b.kind == '`' && c == '}':
		if !w.plain {
			w.at--
			w.template()
		}
	case b.kind != c:
		w.plain = true
	case c == ')':
		if w.last = value; b.head {
			w.last = operation
		}
	case c == ']':
		w.last = value
	default:
		w.last = unclear
	}
}

// arrowFollows reports whether text starts with `=>` but for white space.
func arrowFollows(text string) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] > ' ' {
			return text[i] == '=' && text[i+1] == '>'
		}
	}
	return false
}

// stringEnd returns the offset behind a string that begins at an offset, 0 if it has no end.
func stringEnd(source string, at int) int {
	for i := at + 1; i < len(source); i++ {
		switch source[i] {
		case '\\':
			if i++; strings.HasPrefix(source[i:], "\r\n") {
				i++
			}
		case '\n', '\r':
			return 0
		case source[at]:
			return i + 1
		}
	}
	return 0
}

// templateEnd returns the offset behind a part of a template, with the quote or the brace at its end; 0 if it has none.
func templateEnd(source string, from int) int {
	for i := from; i < len(source); i++ {
		switch c := source[i]; {
		case c == '\\':
			i++
		case c == '`':
			return i + 1
		case c == '$' && strings.HasPrefix(source[i+1:], "{"):
			return i + 2
		}
	}
	return 0
}

// regexpEnd returns the offset behind the slash of a regular expression that begins at an offset, 0 if it has no end.
func regexpEnd(source string, at int) int {
	class := false
	for i := at + 1; i < len(source); i++ {
		switch c := source[i]; {
		case c == '\n', c == '\r':
			return 0
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			return i + 1
		}
	}
	return 0
}

// commentEnd returns the offset behind a comment that begins at an offset, without its line end; 0 if it has no end.
func commentEnd(source string, at int) int {
	if source[at+1] == '*' {
		if end := strings.Index(source[at+2:], "*/"); end >= 0 {
			return at + end + len("/**/")
		}
		return 0
	}
	if end := strings.IndexAny(source[at:], "\n\r\u2028\u2029"); end >= 0 {
		return at + end
	}
	return len(source)
}
