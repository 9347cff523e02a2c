package frame

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Portable returns JSON text that Elixir's decoder takes, with the same meaning. Jason raises on two
// things that are valid JSON, and Phoenix then drops the connection with every topic. An escaped
// surrogate without its other half, as in "\ud800", becomes U+FFFD. A number beyond the range of
// float64, as in 1e400, becomes a string. Other text is returned as it is. Of text that is not valid
// JSON, nothing is promised.
func Portable(text []byte) []byte {
	if !suspicious(text) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			end := i + EndOfString(text[i:])
			out = appendPortableString(out, text[i:end])
			i = end
		case c == '-' || isDigit(c):
			end := i + 1
			for end < len(text) && (isDigit(text[end]) || strings.IndexByte("+-.eE", text[end]) >= 0) {
				end++
			}
			out = appendPortableNumber(out, text[i:end])
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

// suspicious reports whether text may have something to replace.
func suspicious(text []byte) bool {
	const long = 300 // digits; a float64 has up to 309 before the point
	digits := 0
	for i, c := range text {
		switch {
		case isDigit(c):
			if digits++; digits > long {
				return true
			}
			continue
		case (c == 'e' || c == 'E') && digits > 0:
			return true
		case c == '\\' && i+2 < len(text) && text[i+1] == 'u' && text[i+2]|0x20 == 'd':
			return true
		}
		digits = 0
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func appendPortableString(out, text []byte) []byte {
	for i := 0; i < len(text); {
		if text[i] != '\\' || i+1 >= len(text) {
			out = append(out, text[i])
			i++
			continue
		}
		first, ok := escaped(text[i:])
		second, _ := escaped(text[min(i+escapeSize, len(text)):])
		switch {
		case !ok || !utf16.IsSurrogate(first):
			out = append(out, text[i], text[i+1]) // the escaped character may be a backslash
			i += 2
		case utf16.DecodeRune(first, second) != '\uFFFD':
			out = append(out, text[i:i+2*escapeSize]...)
			i += 2 * escapeSize
		default:
			out = append(out, "\uFFFD"...)
			i += escapeSize
		}
	}
	return out
}

const escapeSize = len(`\u0000`)

// escaped returns the UTF-16 code unit of the escape that text begins with.
func escaped(text []byte) (rune, bool) {
	if len(text) < escapeSize || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:escapeSize]), 16, 16)
	return rune(unit), err == nil
}

func appendPortableNumber(out, text []byte) []byte {
	if bytes.ContainsAny(text, ".eE") {
		if _, err := strconv.ParseFloat(string(text), 64); err != nil {
			return append(append(append(out, '"'), text...), '"')
		}
	}
	return append(out, text...)
}
