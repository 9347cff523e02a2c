package options

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error is an option whose value cannot be used.
type Error struct {
	Problem string // one line: which option, what is wrong, what to write instead
}

func (e *Error) Error() string { return e.Problem }

// value is what an option was set to.
type value struct {
	text string // "true" or "false" for a toggle
	from string // the flag or the variable
	flag bool
}

// reader turns values into what they mean. After the first one that cannot be
// used, err is set and the results are worth nothing.
type reader struct {
	values map[string]value // by key, those that are set
	taken  map[string]bool  // by key, those that were asked for
	err    error
}

// key returns what the option is known by in a reader.
func (o Option) key() string {
	if o.Flag != "" {
		return o.Flag
	}
	return o.Env[0]
}

func newReader(flags Parsed, getenv func(string) string) *reader {
	r := &reader{values: make(map[string]value), taken: make(map[string]bool)}
	for _, o := range Table() {
		if v, ok := o.lookup(flags, getenv); ok {
			r.values[o.key()] = v
		}
	}
	return r
}

func (o Option) lookup(flags Parsed, getenv func(string) string) (value, bool) {
	if o.Flag != "" && flags.IsSet(o.Flag) {
		text := flags.String(o.Flag)
		if o.Kind == Toggle {
			text = strconv.FormatBool(flags.Bool(o.Flag))
		}
		if text != "" {
			return value{text: text, from: "--" + o.Flag, flag: true}, true
		}
	}
	for _, name := range o.Env {
		text := getenv(name)
		switch {
		case text == "":
		case o.Kind == Toggle:
			return value{text: strconv.FormatBool(truth(text)), from: name}, true
		default:
			return value{text: text, from: name}, true
		}
	}
	return value{}, false
}

// truth reads a variable as a toggle. Nothing is refused: anything but the words
// for no means yes.
func truth(text string) bool {
	return !slices.Contains([]string{"0", "false", "no", "off"}, strings.ToLower(text))
}

func onOff(text string) string {
	if truth(text) {
		return "on"
	}
	return "off"
}

func (r *reader) failf(format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Problem: fmt.Sprintf(format, args...)}
	}
}

func (r *reader) take(key string) (value, bool) {
	r.taken[key] = true
	v, ok := r.values[key]
	return v, ok
}

func (r *reader) text(key string) string {
	v, _ := r.take(key)
	return v.text
}

func (r *reader) toggle(key string) bool {
	v, ok := r.take(key)
	return ok && truth(v.text)
}

func (r *reader) list(key string) []string {
	v, ok := r.take(key)
	if !ok {
		return nil
	}
	return strings.FieldsFunc(v.text, func(c rune) bool { return c == ',' || c == ' ' })
}

// oneOf returns the value, or the first choice if there is none.
func (r *reader) oneOf(key string, choices ...string) string {
	v, ok := r.take(key)
	if !ok {
		return choices[0]
	}
	if !slices.Contains(choices, v.text) {
		r.failf("%s %q is not known: write %s", v.from, v.text, strings.Join(choices, " or "))
	}
	return v.text
}

func (r *reader) count(v value) int {
	n, err := strconv.Atoi(v.text)
	if err != nil || n < 1 {
		r.failf("%s %q is not a number of runs: write a whole number from 1 up", v.from, v.text)
	}
	return n
}

// whole returns a whole number from 1 up, 0 if there is none.
func (r *reader) whole(key string) int {
	v, ok := r.take(key)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(v.text)
	if err != nil || n < 1 {
		r.failf("%s %q is not a number: write a whole number from 1 up", v.from, v.text)
	}
	return n
}

// folder returns a folder that is there.
func (r *reader) folder(key string) string {
	v, ok := r.take(key)
	if !ok {
		return ""
	}
	if info, err := os.Stat(v.text); err != nil || !info.IsDir() {
		r.failf("%s %q is not a folder: make it first, writable by the worker", v.from, v.text)
	}
	return v.text
}

// maxNumber is beyond any use, and small enough that seconds fit a
// [time.Duration].
const maxNumber = 1e9

func (r *reader) number(key, unit string) float64 {
	v, ok := r.take(key)
	if !ok {
		return 0
	}
	n, ok := positive(v.text)
	if !ok {
		r.failf("%s %q is not a number of %s: write one greater than 0", v.from, v.text, unit)
	}
	return n
}

func positive(text string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return n, err == nil && n > 0 && n <= maxNumber
}

func (r *reader) megabytes(key string) float64 { return r.number(key, "MB") }

func (r *reader) seconds(key string) time.Duration { return seconds(r.number(key, "seconds")) }

// seconds rounds up, so that no setting becomes zero, which would be the default.
func seconds(n float64) time.Duration { return time.Duration(math.Ceil(n * float64(time.Second))) }

func (r *reader) backoff(key string) (shortest, longest time.Duration) {
	v, ok := r.take(key)
	if !ok {
		return 0, 0
	}
	from, to, _ := strings.Cut(v.text, "/")
	low, ok1 := positive(from)
	high, ok2 := positive(to)
	if !ok1 || !ok2 || low > high {
		r.failf("%s %q is not a back-off: write the shortest and the longest pause in seconds, such as 1/10", v.from, v.text)
	}
	return seconds(low), seconds(high)
}

// endpoint checks what [channel.Open] would refuse later. The URL is not quoted:
// it may hold a token.
func (r *reader) endpoint(key string) string {
	v, ok := r.take(key)
	switch {
	case !ok:
		return "ws://localhost:4000/worker"
	case v.text == "mock":
		return mockURL
	}
	u, err := url.Parse(v.text)
	if err != nil || u.Host == "" || !slices.Contains([]string{"ws", "wss", "http", "https"}, u.Scheme) {
		r.failf("%s is not a websocket URL: write it like wss://lightning.example.org/worker", v.from)
	}
	return v.text
}

// authorities returns a TLS configuration that trusts those of the system and of
// the file, nil if there is no file.
func (r *reader) authorities(key string) *tls.Config {
	v, ok := r.take(key)
	if !ok {
		return nil
	}
	pem, err := os.ReadFile(v.text)
	if err != nil {
		r.failf("%s cannot be read: %v", v.from, err)
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without any is common in containers
	}
	if !pool.AppendCertsFromPEM(pem) {
		r.failf("%s %s has no certificate in it: give a PEM file with BEGIN CERTIFICATE", v.from, v.text)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
