package compile

import (
	"strings"
	"unicode/utf8"
)

// A weigher counts the tokens of a source before it is parsed, because the memory that parsing takes goes by them: a string
// of a megabyte is one token, a megabyte of `x=1;` is a million. It may count too many, and never counts many too few. It
// takes a string, a part of a template or a regular expression for one token, and a comment for none. Only a parser can
// tell what some slashes begin. From such a slash on, and from a string, template, comment or regular expression that has no
// end, the weigher takes the rest of the source for code, in which quotes and slashes are tokens like others.
type weigher struct {
	source string
	at     int
	count  int
	open   []bracket
	last   before
	plain  bool // all that follows counts as code
}

// A bracket is one that is open.
type bracket struct {
	kind  byte // what closes it; '`' for what is closed by a brace and goes on as a template
	head  bool // of an if or a loop, behind which a slash begins a regular expression
	count int  // of the tokens before it
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

// countTokens returns about how many tokens the parser reads in a source, those that it reads twice counted twice.
func countTokens(source string) int {
	w := weigher{source: source}
	for w.at < len(w.source) {
		w.next()
	}
	return w.count
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
		w.skip(w.quoted(c))
	case c == '`':
		w.skip(w.template(w.at + 1))
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

// quoted returns the offset behind a string that begins here, 0 if it has no end.
func (w *weigher) quoted(quote byte) int {
	for i := w.at + 1; i < len(w.source); i++ {
		switch w.source[i] {
		case '\\':
			i++
		case '\n', '\r':
			return 0
		case quote:
			return i + 1
		}
	}
	return 0
}

// template returns the offset behind a part of a template, 0 if it has no end.
func (w *weigher) template(from int) int {
	for i := from; i < len(w.source); i++ {
		switch c := w.source[i]; {
		case c == '\\':
			i++
		case c == '`':
			return i + 1
		case c == '$' && strings.HasPrefix(w.source[i+1:], "{"):
			w.open = append(w.open, bracket{kind: '`', count: w.count})
			return i + 2
		}
	}
	return 0
}

func (w *weigher) slash() {
	rest := w.source[w.at+1:]
	switch {
	case strings.HasPrefix(rest, "/"):
		if end := strings.IndexAny(rest, "\n\r\u2028\u2029"); end >= 0 {
			w.at += 1 + end
			return
		}
		w.at = len(w.source)
	case strings.HasPrefix(rest, "*"):
		end := strings.Index(rest[1:], "*/")
		if end < 0 {
			w.skip(0)
			return
		}
		w.at += end + len("/**/")
	case w.last == value:
		w.bracket('/')
	case w.last == operation:
		w.skip(w.regexp())
	default:
		w.skip(0)
	}
}

// regexp returns the offset behind a regular expression that begins here, 0 if it has no end.
func (w *weigher) regexp() int {
	class := false
	for i := w.at + 1; i < len(w.source); i++ {
		switch c := w.source[i]; {
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

// bracket takes a character of its own.
func (w *weigher) bracket(c byte) {
	w.count++
	w.at++
	last := w.last
	w.last = operation
	switch c {
	case '(', '[', '{':
		w.open = append(w.open, bracket{kind: closer(c), head: last == control, count: w.count})
	case ')', ']', '}':
		w.closes(c)
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
	switch {
	case b.kind == '`' && c == '}':
		if !w.plain {
			w.at--
			w.skip(w.template(w.at + 1))
		}
	case b.kind != c:
		w.plain = true
	case c == ')':
		if w.last = value; b.head {
			w.last = operation
		}
		if arrowFollows(w.source[w.at:]) {
			w.count = min(2*w.count-b.count, manyTokens) // the parser reads parameters again
		}
	case c == ']':
		w.last = value
	default:
		w.last = unclear
	}
}
