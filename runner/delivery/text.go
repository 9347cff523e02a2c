package delivery

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/phxworker/phxworker/channel/frame"
)

// Cut returns the beginning of a text that has more than most bytes, without half a letter at the end and with the
// mark behind it.
func Cut(text string, most int, mark string) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + mark
}

// Short returns what a server or a plan says as it is kept, with others, for the status, and goes back to the server: it
// may be of any length.
func Short(text string) string { return Cut(text, maxWords, "…") }

const maxWords = 1000

// FormatMB writes a number of MB the way it stands in the log lines of OpenFn's worker: 10mb, 0.5mb. A limit that is
// negative, so that nothing is sent, is one of 0mb.
func FormatMB(mb float64) string { return strconv.FormatFloat(max(mb, 0), 'f', -1, 64) + "mb" }

// Exceeds reports whether so many bytes are over a limit: 0 is none, and a negative one lets nothing through.
func Exceeds(size int, limitMB float64) bool {
	return limitMB != 0 && float64(size) > max(limitMB, 0)*(1<<20)
}

// replacement stands for what the server's database cannot store.
const replacement = "\uFFFD"

// storableText returns a text as PostgreSQL can store it: without U+0000, over which Lightning's channel crashes each
// time that it comes.
func storableText(text string) string { return strings.ReplaceAll(text, "\x00", replacement) }

// storable does the same for JSON, where U+0000 is always written as an escape.
func storable(data json.RawMessage) json.RawMessage {
	if !bytes.Contains(data, []byte(`\u0000`)) {
		return data
	}
	return mapStrings(data, storableText)
}

// mapStrings changes what the strings in JSON text mean, keys included, and leaves all else as it is: a number would be
// none without a secret in it.
func mapStrings(in json.RawMessage, change func(string) string) json.RawMessage {
	var out []byte
	for rest := []byte(in); ; {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			return append(out, rest...)
		}
		end := start + frame.EndOfString(rest[start:])
		out = append(out, rest[:start]...)
		out = append(out, mapString(rest[start:end], change)...)
		rest = rest[end:]
	}
}

// mapString changes what a JSON string means; in has its quotes. To change it as it is written would not do: the
// secret "name" also stands in "\name", a line break and "ame", and without it the rest would be no JSON.
func mapString(in []byte, change func(string) string) []byte {
	var plain string
	if json.Unmarshal(in, &plain) != nil {
		return in // no server takes it
	}
	changed := change(plain)
	if changed == plain {
		return in
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(changed) // a string cannot fail to encode
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

const (
	scrubbed = "***"
	// minSecret spares short values: a secret of three letters cannot be told from a word, and a log full of ***
	// helps nobody.
	minSecret = 4
)

// public are the keys of a credential whose values are no secrets; people need to read them in a log. They are those
// that Lightning spares.
var public = map[string]bool{
	"username": true, "email": true, "host": true, "port": true, "apiversion": true,
	"hosturl": true, "baseurl": true, "instanceurl": true, "database": true,
}

// Hide has the run's token and the secrets in these credentials, by job, replaced in all lines that come from now on.
// Lightning scrubs as well, but only on its side and only what it was asked for; a secret is safest when it is never sent.
func (o *Outbox) Hide(credentials map[string]json.RawMessage) {
	secrets := []string{o.run.Token}
	for _, body := range credentials {
		var value any
		if json.Unmarshal(body, &value) == nil {
			secrets = appendSecrets(secrets, "", value)
		}
	}
	// A secret that another one begins with must not hide the longer one from the replacer, which takes the first
	// that matches.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			pairs = append(pairs, secret, scrubbed)
		}
	}
	o.secrets.Store(strings.NewReplacer(pairs...))
}

// Scrub returns the text without the secrets of the run.
func (o *Outbox) Scrub(text string) string { return o.secrets.Load().Replace(text) }

func appendSecrets(secrets []string, key string, value any) []string {
	switch v := value.(type) {
	case string:
		if !public[strings.ToLower(key)] {
			secrets = append(secrets, v)
		}
	case []any:
		for _, item := range v {
			secrets = appendSecrets(secrets, key, item)
		}
	case map[string]any:
		for k, item := range v {
			secrets = appendSecrets(secrets, k, item)
		}
	}
	return secrets
}
