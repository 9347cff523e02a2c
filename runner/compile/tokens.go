package compile

import (
	"sort"
	"unicode"
	"unicode/utf8"
)

// tokens are the tokens of a body that parses. The syntax tree says where most things start, but not where the
// brackets and commas around them stand, nor where a statement ends; the tokens do.
type tokens struct {
	list []packedToken
}

// packedToken is a token in 16 bytes: a body has very many.
type packedToken struct {
	start, end, match int32
	kind              byte
}

// at returns token i.
func (t *tokens) at(i int) token {
	p := t.list[i]
	return token{start: int(p.start), end: int(p.end), match: int(p.match), kind: p.kind}
}

type token struct {
	start, end int
	// kind is the character of a punctuator, each character being a token of its own, or word or literal.
	kind byte
	// match is the index of the bracket that a bracket opens or closes, -1 if the token is none.
	match int
}

const (
	word    = 'a' // identifiers, keywords, numbers
	literal = '"' // strings, regular expressions, the text parts of templates
)

// scan splits source into tokens. Whether a slash starts a regular expression is known only to a parser, so their
// offsets are given. Count is about how many there will be. Comments and white space are left out. The error is for a regular expression without an end: the
// parser lets one pass whose last character class is open.
func scan(source string, count int, regexps []int) (*tokens, error) {
	s := scanner{source: source, regexps: make(map[int]bool, len(regexps))}
	for _, offset := range regexps {
		s.regexps[offset] = true
	}
	s.list = make([]packedToken, 0, count)
	for s.at < len(source) {
		s.next()
	}
	if s.err != nil {
		return nil, s.err
	}
	return &tokens{list: s.list}, nil
}

// starting returns the index of the token that starts at offset.
func (t *tokens) starting(offset int) int {
	return sort.Search(len(t.list), func(i int) bool { return int(t.list[i].start) >= offset })
}

// kind is the kind of token i, 0 if there is none.
func (t *tokens) kind(i int) byte {
	if i < 0 || i >= len(t.list) {
		return 0
	}
	return t.list[i].kind
}

type scanner struct {
	source  string
	at      int
	regexps map[int]bool
	list    []packedToken
	open    []int32 // indexes of the brackets not closed yet
	err     error
}

func (s *scanner) next() {
	start := s.at
	switch c := s.source[start]; {
	case isWordByte(c):
		s.word()
	case c == '"' || c == '\'':
		s.skipTo(start+1, c)
		s.add(start, literal)
	case c == '`':
		s.template()
	case c == '/' && s.regexps[start]:
		s.regexp()
	case c == '/' && s.peek(1) == '/':
		for s.at < len(s.source) && V8.lineEnd(s.source[s.at:]) == 0 {
			s.at++
		}
	case c == '/' && s.peek(1) == '*':
		s.at += 2
		for s.at < len(s.source) && (s.source[s.at] != '*' || s.peek(1) != '/') {
			s.at++
		}
		s.at = min(s.at+2, len(s.source))
	case c <= ' ':
		s.at++
	default:
		s.at++
		s.bracket(start, c)
	}
}

// word takes an identifier, a number, or white space outside ASCII, which is no token.
func (s *scanner) word() {
	start := s.at
	for s.at < len(s.source) && isWordByte(s.source[s.at]) {
		c := s.source[s.at]
		switch {
		case c == '\\' && s.peek(1) == 'u' && s.peek(2) == '{':
			s.skipTo(s.at+3, '}')
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s.source[s.at:])
			if unicode.IsSpace(r) || r == '\ufeff' || r == '\u2028' || r == '\u2029' {
				s.add(start, word)
				s.at += n
				return
			}
			s.at += n
		default:
			s.at++
		}
	}
	s.add(start, word)
}

// template takes a template literal: its text as literals, the code in it as tokens.
func (s *scanner) template() {
	start := s.at
	s.at++
	for s.at < len(s.source) {
		switch c := s.source[s.at]; {
		case c == '\\':
			s.at += 2
		case c == '`':
			s.at++
			s.add(start, literal)
			return
		case c == '$' && s.peek(1) == '{':
			s.at++
			s.add(start, literal)
			s.substitution()
			start = s.at
		default:
			s.at++
		}
	}
	s.at = len(s.source)
	s.add(start, literal)
}

// substitution takes `{ … }` inside a template.
func (s *scanner) substitution() {
	depth := len(s.open)
	s.next()
	for s.at < len(s.source) && len(s.open) > depth {
		s.next()
	}
}

func (s *scanner) regexp() {
	start := s.at
	class := false
	for s.at++; s.at < len(s.source); s.at++ {
		switch c := s.source[s.at]; {
		case c == '\\':
			s.at++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			s.at++
			for s.at < len(s.source) && isWordByte(s.source[s.at]) && s.source[s.at] < utf8.RuneSelf {
				s.at++ // flags
			}
			s.add(start, literal)
			return
		}
	}
	s.err = errorAt(s.source, start, "Invalid regular expression: missing /")
}

// skipTo moves behind the next unescaped end, searching from offset.
func (s *scanner) skipTo(offset int, end byte) {
	for s.at = offset; s.at < len(s.source); s.at++ {
		switch s.source[s.at] {
		case '\\':
			s.at++
		case end:
			s.at++
			return
		}
	}
	s.at = len(s.source)
}

func (s *scanner) bracket(start int, c byte) {
	s.add(start, c)
	switch c {
	case '(', '[', '{':
		s.open = append(s.open, int32(len(s.list)-1)) //nolint:gosec // see maxBody
	case ')', ']', '}':
		if n := len(s.open); n > 0 {
			last := int32(len(s.list) - 1) //nolint:gosec // see maxBody
			s.list[last].match, s.list[s.open[n-1]].match = s.open[n-1], last
			s.open = s.open[:n-1]
		}
	}
}

func (s *scanner) add(start int, kind byte) {
	if s.at > start {
		s.list = append(s.list, packedToken{start: int32(start), end: int32(s.at), kind: kind, match: -1}) //nolint:gosec // see maxBody
	}
}

func (s *scanner) peek(n int) byte {
	if s.at+n < len(s.source) {
		return s.source[s.at+n]
	}
	return 0
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '_' || c == '$' || c == '\\' || c >= utf8.RuneSelf
}
