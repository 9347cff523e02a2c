package report

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// scrubber takes out of texts what must stay on this machine. The log has none of
// it either; this is for errors of other programs and libraries, which nobody
// here has worded.
type scrubber struct{ secrets *strings.Replacer }

const (
	hidden = "***"
	// longest bounds a text, in bytes.
	longest = 8 << 10
)

var (
	// A URL's user and password, and all from its query on.
	userinfo = regexp.MustCompile(`://[^\s/@"']*@`)
	query    = regexp.MustCompile(`(://[^\s?#"']*)[?#][^\s"']*`)
	// A JSON Web Token: three parts, of which the last may be empty.
	token = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`)
)

func newScrubber(secrets []string) *scrubber {
	// The longest first, for one may be a part of another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range secrets {
		if secret != "" {
			pairs = append(pairs, secret, hidden)
		}
	}
	return &scrubber{secrets: strings.NewReplacer(pairs...)}
}

func (s *scrubber) text(text string) string {
	text = s.secrets.Replace(text)
	text = query.ReplaceAllString(text, "$1")
	text = userinfo.ReplaceAllString(text, "://")
	text = token.ReplaceAllString(text, hidden)
	if len(text) <= longest {
		return text
	}
	cut := longest
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
