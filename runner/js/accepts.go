package js

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/phxworker/phxworker/runner"
)

var _ runner.PartialEngine = (*Engine)(nil)

// otherwise are the words for what QuickJS may do otherwise than Node: the words of errors that a job catches, numbers
// without an end in a state, what QuickJS lacks, and whatever tells that jobs there are in a context of their own, and their
// states are not.
var otherwise = setOf("catch allSettled stack instanceof constructor prototype __proto__ getPrototypeOf setPrototypeOf BigInt collections " +
	"fromAsync captureStackTrace stackTraceLimit dispose asyncDispose InternalError SuppressedError")

// alikeMath are the members of Math that are the same in each engine. Of the others, the language leaves the last digit open.
var alikeMath = setOf("abs ceil clz32 floor fround imul max min random round sign sqrt trunc E LN10 LN2 LOG10E LOG2E PI SQRT1_2 SQRT2")

// power is the operator, which is exact no more than Math.pow. In comments, stars stand beside a slash or in rows.
var power = regexp.MustCompile(`(^|[^*/])\*\*($|[^*/])`)

// ofLanguages are the words for what depends on a language, or on the name of a time zone, and is not built in.
var ofLanguages = setOf("localeCompare Intl intlFormat intlFormatDistance")

func setOf(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// inUTC tells whether the worker's time zone is UTC, the only one whose name is known here.
var inUTC = func() bool {
	for _, at := range []time.Time{time.Unix(0, 0), time.Date(2000, 7, 1, 0, 0, 0, 0, time.UTC), time.Now()} {
		if name, offset := at.Local().Zone(); name != "UTC" || offset != 0 {
			return false
		}
	}
	return true
}()

// CanRun implements [runner.PartialEngine]: a run whose adaptors are for this engine, whose input is not larger than
// [Config.MostInput], and whose code does not name what QuickJS may do otherwise than Node.
func (e *Engine) CanRun(ctx context.Context, run *runner.Run) error {
	plan := run.Plan
	for _, in := range passages(plan) {
		if word := findOtherwise(in.code); word != "" {
			return &refusal{in, "says " + word + ", which may come to something else in Node (--engine js executes it all the same)", false}
		}
	}
	if most := e.cfg.MostInput; most > 0 && int64(len(run.Input)) > most {
		return fmt.Errorf("its input has %.1f MB, over the %.1f MB up to which the embedded engine is the faster one", megabytes(int64(len(run.Input))), megabytes(most))
	}
	_, err := e.needs(ctx, run)
	return err
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// findOtherwise returns what of a code QuickJS may do otherwise than Node, "" for nothing.
func findOtherwise(code string) string {
	if word := findWord(code, isOtherwise); word != "" {
		return word
	}
	if power.MatchString(code) {
		return "**"
	}
	return ""
}

func isOtherwise(word, after string) bool {
	switch word {
	case "Date":
		return !inUTC
	case "Math":
		member, _ := strings.CutPrefix(strings.TrimLeft(after, blanks+"?"), ".")
		return !alikeMath[firstWord(strings.TrimLeft(member, blanks))]
	case "RegExp": // what it keeps of the last match, such as $1
		after = strings.TrimLeft(after, blanks+"?")
		return strings.HasPrefix(after, ".") || strings.HasPrefix(after, "[")
	case "sort", "toSorted": // by a function, which may contradict itself, as (a, b) => a > b does
		return firstArgument(after) != 0
	case "toString": // of another base, but for Buffer's of an encoding
		return !strings.ContainsRune("\x00'\"`", firstArgument(after))
	case "then": // with a second function, which is given the words of errors
		arguments, called := argumentsIn(after)
		return called && hasSecond(arguments)
	}
	return otherwise[word] || word[0] <= '9' && word[0] >= '0' && word[len(word)-1] == 'n'
}

const blanks = " \t\r\n"

// argumentsIn returns what follows the bracket of a call, given what follows the name, and whether there is one.
func argumentsIn(after string) (string, bool) {
	arguments, called := strings.CutPrefix(strings.TrimLeft(after, blanks+"?."), "(")
	return strings.TrimLeft(arguments, blanks), called
}

// firstArgument returns the first byte of what a function is called with, given what comes after its name; 0 for nothing.
func firstArgument(after string) rune {
	arguments, called := argumentsIn(after)
	if !called || arguments == "" || arguments[0] == ')' {
		return 0
	}
	return rune(arguments[0])
}

// hasSecond reports whether there are two arguments, given what follows the bracket; also where texts or comments hide that.
func hasSecond(arguments string) bool {
	depth := 0
	for i := 0; i < len(arguments); i++ {
		switch c := arguments[i]; c {
		case '\'', '"', '`':
			for i++; i < len(arguments) && arguments[i] != c; i++ {
				if arguments[i] == '\\' {
					i++
				}
			}
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth < 0 {
				return false
			}
		case ',':
			if depth == 0 && !strings.HasPrefix(strings.TrimLeft(arguments[i+1:], blanks), ")") {
				return true
			}
		}
	}
	return true
}

func firstWord(code string) string {
	end := 0
	for end < len(code) && isWordByte(code[end]) {
		end++
	}
	return code[:end]
}

func isOfLanguages(word, _ string) bool {
	return ofLanguages[word] || strings.HasPrefix(word, "toLocale")
}

// findWord returns the first word of a code for which is returns true, given what comes after it, "" for none. What is
// in a text or a comment counts as well: that a job says a word in vain does no harm.
func findWord(code string, is func(word, after string) bool) string {
	for i := 0; i < len(code); i++ {
		word := firstWord(code[i:])
		if i += len(word); word != "" && is(word, code[i:]) {
			return word
		}
	}
	return ""
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}
