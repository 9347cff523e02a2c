package compile

import (
	"cmp"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokens are the tokens of a body that parses. The syntax tree says where most things start, but not where the
// brackets and commas around them stand, nor where a statement ends; the tokens do.
type tokens []packedToken

// packedToken is a token in 16 bytes: a body has very many.
type packedToken struct {
	start, end, match int32
	kind              byte
}

// at returns token i.
func (t tokens) at(i int) token {
	p := t[i]
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
func scan(source string, count int, regexps map[int]bool) (tokens, error) {
	s := scanner{source: source, regexps: regexps, list: make(tokens, 0, count)}
	for s.at < len(source) {
		s.next()
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.list, nil
}

// starting returns the index of the token that starts at offset.
func (t tokens) starting(offset int) int {
	return sort.Search(len(t), func(i int) bool { return int(t[i].start) >= offset })
}

// kind is the kind of token i, 0 if there is none.
func (t tokens) kind(i int) byte {
	if i < 0 || i >= len(t) {
		return 0
	}
	return t[i].kind
}

type scanner struct {
	source  string
	at      int
	regexps map[int]bool
	list    tokens
	open    []int32 // indexes of the brackets not closed yet
	// templates has for each open brace of a template how many brackets are open around it.
	templates []int
	err       error
}

func (s *scanner) next() {
	start := s.at
	switch c := s.source[start]; {
	case isWordByte(c):
		s.word()
	case c == '"' || c == '\'':
		s.literal(stringEnd(s.source, start))
	case c == '`':
		s.template(start + 1)
	case c == '/' && s.regexps[start]:
		s.regexp()
	case c == '/' && (s.peek(1) == '/' || s.peek(1) == '*'):
		s.at = cmp.Or(commentEnd(s.source, start), len(s.source))
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
			s.at += 1 + max(strings.IndexByte(s.source[s.at:], '}'), 0)
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

// template takes a part of a template literal, the text from an offset on as a literal. The code in it comes as tokens.
func (s *scanner) template(from int) {
	end := templateEnd(s.source, from)
	if end == 0 || s.source[end-1] == '`' {
		s.literal(end)
		return
	}
	s.literal(end - 1)
	s.templates = append(s.templates, len(s.open))
}

func (s *scanner) regexp() {
	end := regexpEnd(s.source, s.at)
	if end == 0 {
		s.err = errorAt(s.source, s.at, "Invalid regular expression: missing /")
	}
	for end > 0 && end < len(s.source) && isWordByte(s.source[end]) && s.source[end] < utf8.RuneSelf {
		end++ // flags
	}
	s.literal(end)
}

// literal takes what ends before an offset; 0 stands for the end of the source.
func (s *scanner) literal(end int) {
	start := s.at
	s.at = cmp.Or(end, len(s.source))
	s.add(start, literal)
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
		if n := len(s.templates) - 1; n >= 0 && s.templates[n] == len(s.open) {
			s.templates = s.templates[:n]
			s.template(s.at)
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
