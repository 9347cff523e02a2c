package runner

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
)

// scrubber replaces the secrets of a run in its log lines: those of its
// credentials, and its token.
//
// Lightning scrubs as well, but only on its side and only what it was asked
// for; a secret is safest when it is never sent.
//
// Its methods may be called concurrently.
type scrubber struct {
	replace atomic.Pointer[strings.Replacer] // nil when there is nothing to hide
}

const (
	scrubbed = "***"
	// minSecret spares short values: a secret of three letters cannot be told
	// from a word, and a log full of *** helps nobody.
	minSecret = 4
)

// public are the keys of a credential whose values are no secrets; people need
// to read them in a log. They are those that Lightning spares.
var public = map[string]bool{
	"username": true, "email": true, "host": true, "port": true, "apiversion": true,
	"hosturl": true, "baseurl": true, "instanceurl": true, "database": true,
}

func newScrubber(token string, credentials map[string]json.RawMessage) *scrubber {
	s := new(scrubber)
	s.learn(token, credentials)
	return s
}

// learn makes the scrubber replace these secrets, and no others.
func (s *scrubber) learn(token string, credentials map[string]json.RawMessage) {
	seen := make(map[string]bool)
	var secrets []string
	if len(token) >= minSecret {
		secrets = append(secrets, token)
	}
	for _, body := range credentials {
		var value any
		if json.Unmarshal(body, &value) != nil {
			continue
		}
		collectSecrets("", value, func(secret string) {
			if len(secret) < minSecret || seen[secret] {
				return
			}
			seen[secret] = true
			secrets = append(secrets, secret)
		})
	}
	if secrets == nil {
		return
	}
	// A secret that another one begins with must not hide the longer one from
	// the replacer, which takes the first that matches.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range secrets {
		pairs = append(pairs, secret, scrubbed)
	}
	s.replace.Store(strings.NewReplacer(pairs...))
}

func collectSecrets(key string, value any, found func(string)) {
	switch v := value.(type) {
	case string:
		if !public[strings.ToLower(key)] {
			found(v)
		}
	case []any:
		for _, item := range v {
			collectSecrets(key, item, found)
		}
	case map[string]any:
		for k, item := range v {
			collectSecrets(k, item, found)
		}
	}
}

func (s *scrubber) messages(in []json.RawMessage) []json.RawMessage {
	if s.replace.Load() == nil {
		return in
	}
	out := make([]json.RawMessage, len(in))
	for i, m := range in {
		out[i] = s.value(m)
	}
	return out
}

// plain scrubs a text.
func (s *scrubber) plain(text string) string {
	if replace := s.replace.Load(); replace != nil {
		return replace.Replace(text)
	}
	return text
}

// value scrubs the strings of a JSON value and leaves all else as it is:
// replacing a secret that is a number outside a string would break the value.
func (s *scrubber) value(in json.RawMessage) json.RawMessage {
	var out []byte
	rest := []byte(in)
	for {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			return append(out, rest...)
		}
		end := start + stringLength(rest[start:])
		out = append(out, rest[:start]...)
		out = append(out, s.text(rest[start:end])...)
		rest = rest[end:]
	}
}

// text scrubs a JSON string, with its quotes. A secret is looked for in what the
// string means: as it is written, the secret "name" also stands in "\name", a line
// break and "ame", and without it the rest would be no JSON.
func (s *scrubber) text(in []byte) []byte {
	var plain string
	if json.Unmarshal(in, &plain) != nil {
		return in // no server takes it
	}
	clean := s.plain(plain)
	if clean == plain {
		return in
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(clean) // a string cannot fail to encode
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// stringLength returns the length, with both quotes, of the JSON string that in
// begins with.
func stringLength(in []byte) int {
	for i := 1; i < len(in); i++ {
		switch in[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(in)
}
