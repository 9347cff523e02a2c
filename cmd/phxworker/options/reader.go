package options

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phxworker/phxworker/cmd/phxworker/secrets"
	"github.com/phxworker/phxworker/slots"
)

// Error is an option whose value cannot be used.
type Error struct {
	Problem string // one line: which option, what is wrong, what to write instead
}

func (e *Error) Error() string { return e.Problem }

// reader turns values into what they mean. After the first one that cannot be
// used, err is set and the results are worth nothing.
type reader struct {
	*Values

	taken map[string]bool // by key, those that were asked for
	open  []value         // files with a secret that everybody on this machine can read
	err   error
}

func newReader(values *Values) *reader {
	return &reader{Values: values, taken: make(map[string]bool)}
}

func (r *reader) failf(format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Problem: fmt.Sprintf(format, args...)}
	}
}

func (r *reader) take(key string) (value, bool) {
	r.taken[key] = true
	v, ok := r.byKey[key]
	return v, ok
}

func (r *reader) text(key string) string {
	v, _ := r.take(key)
	return v.text
}

// secret returns the text of an option, or what is in the file that another one names.
func (r *reader) secret(key, fileKey string) string {
	given, is := r.take(key)
	file, isFile := r.take(fileKey)
	switch {
	case is && isFile:
		r.failf("%s and %s exclude each other: keep one of them", given.from, file.from)
	case isFile:
		text, open, err := secrets.Read(file.text)
		if err != nil {
			r.failf("%s: %v", file.from, err)
		}
		if open {
			r.open = append(r.open, file)
		}
		return text
	}
	return given.text
}

func (r *reader) toggle(key string) bool {
	v, ok := r.take(key)
	if !ok {
		return false
	}
	on, ok := truth(v.text)
	if !ok {
		r.failf("%s %q is neither on nor off: write %s", v.from, v.text, toggleWords)
	}
	return on
}

func (r *reader) list(key string) []string {
	v, ok := r.take(key)
	if !ok {
		return nil
	}
	return items(v.text)
}

// items returns the items of a list, which have commas or spaces between them.
func items(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

func (r *reader) oneOf(key string, choices ...string) string {
	v, _ := r.take(key)
	if !slices.Contains(choices, v.text) {
		r.failf("%s %q is not known: write %s", v.from, v.text, strings.Join(choices, " or "))
	}
	return v.text
}

// count returns how many runs to execute at once.
func (r *reader) count(v value) int {
	n, ok := whole(v.text)
	switch {
	case !ok || n < 1:
		r.failf("%s %q is not a number of runs: write a whole number from 1 up", v.from, v.text)
	case n > slots.MaxGroupSlots:
		r.failf("%s %q is too large: write %d at most", v.from, v.text, slots.MaxGroupSlots)
	}
	return n
}

// whole returns a whole number from least up, 0 if there is none.
func (r *reader) whole(key string, least int) int {
	v, ok := r.take(key)
	if !ok {
		return 0
	}
	n, ok := whole(v.text)
	switch {
	case !ok || n < least:
		r.failf("%s %q is not a number: write a whole number from %d up", v.from, v.text, least)
	case n > maxNumber:
		r.failf("%s %q is too large: write %d at most", v.from, v.text, maxNumber)
	}
	return n
}

// whole reads a whole number, the largest or the smallest for one beyond them.
func whole(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// folder returns a folder that is there.
func (r *reader) folder(key string) string {
	v, ok := r.take(key)
	if !ok {
		return ""
	}
	if info, err := os.Stat(v.text); err != nil || !info.IsDir() {
		r.failf("%s %q is not a folder: make it first", v.from, v.text)
	}
	return v.text
}

// maxNumber is beyond any use, and small enough that seconds fit a
// [time.Duration].
const maxNumber = 1_000_000_000

func (r *reader) number(key, unit string) float64 { return r.numberFrom(key, unit, "greater than 0") }

// numberFrom returns a number greater than 0. What least says of it is for people: an option may have taken 0 before.
func (r *reader) numberFrom(key, unit, least string) float64 {
	v, ok := r.take(key)
	if !ok {
		return 0
	}
	n, ok := positive(v.text)
	switch {
	case !ok:
		r.failf("%s %q is not a number of %s: write one %s", v.from, v.text, unit, least)
	case n > maxNumber:
		r.failf("%s %q is too large: write %d %s at most", v.from, v.text, maxNumber, unit)
	}
	return n
}

// positive reads a number greater than 0, infinity for one that is too large to be
// a number here.
func positive(text string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return n, (err == nil || errors.Is(err, strconv.ErrRange)) && n > 0
}

func (r *reader) megabytes(key string) float64 { return r.number(key, "MB") }

// limit returns a number of MB as a limit of [phxworker.Limits] is, negative for 0.
func (r *reader) limit(key string) float64 {
	if r.isZero(key) {
		return -1
	}
	return r.numberFrom(key, "MB", "from 0 up")
}

// orIfZero returns a number greater than 0, and another one for 0.
func (r *reader) orIfZero(key, unit string, other float64) float64 {
	if r.isZero(key) {
		return other
	}
	return r.number(key, unit)
}

// isZero reports whether the option is the number 0.
func (r *reader) isZero(key string) bool {
	v, ok := r.take(key)
	n, err := strconv.ParseFloat(strings.TrimSpace(v.text), 64)
	return ok && err == nil && n == 0
}

func (r *reader) seconds(key string) time.Duration { return seconds(r.number(key, "seconds")) }

func (r *reader) milliseconds(key string) time.Duration {
	return seconds(r.number(key, "milliseconds") / 1000)
}

// seconds rounds up, so that no setting becomes zero, which would be the default.
func seconds(n float64) time.Duration { return time.Duration(math.Ceil(n * float64(time.Second))) }

func (r *reader) backoff(key string) (shortest, longest time.Duration) {
	v, _ := r.take(key)
	from, to, _ := strings.Cut(v.text, "/")
	low, ok1 := positive(from)
	high, ok2 := positive(to)
	switch {
	case !ok1 || !ok2 || low > high:
		r.failf("%s %q is not a back-off: write the shortest and the longest pause in seconds, such as 1/10", v.from, v.text)
	case high > maxNumber:
		r.failf("%s %q is too large: write pauses of %d seconds at most", v.from, v.text, maxNumber)
	}
	return seconds(low), seconds(high)
}
