package runner

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// scrubber replaces the secrets of a run's credentials in its log lines.
//
// Lightning scrubs as well, but only on its side and only what it was asked
// for; a secret is safest when it is never sent.
type scrubber struct {
	replace *strings.Replacer // nil when there is nothing to hide
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

func newScrubber(credentials map[string]json.RawMessage) *scrubber {
	seen := make(map[string]bool)
	var secrets []string
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
		return &scrubber{}
	}
	// A secret that another one begins with must not hide the longer one from
	// the replacer, which takes the first that matches.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range secrets {
		for _, spelling := range spellings(secret) {
			pairs = append(pairs, spelling, scrubbed)
		}
	}
	return &scrubber{replace: strings.NewReplacer(pairs...)}
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

// spellings returns how the secret can stand between the quotes of a JSON
// string.
func spellings(secret string) []string {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(secret) // a string cannot fail to encode
	inner := strings.TrimSuffix(plain.String(), "\n")
	inner = inner[1 : len(inner)-1]

	html, _ := json.Marshal(secret)
	if escaped := string(html[1 : len(html)-1]); escaped != inner {
		return []string{inner, escaped}
	}
	return []string{inner}
}

func (s *scrubber) messages(in []json.RawMessage) []json.RawMessage {
	if s.replace == nil {
		return in
	}
	out := make([]json.RawMessage, len(in))
	for i, m := range in {
		out[i] = s.value(m)
	}
	return out
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
		out = append(out, rest[:start+1]...)
		out = append(out, s.replace.Replace(string(rest[start+1:end-1]))...)
		out = append(out, '"')
		rest = rest[end:]
	}
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
