package js

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/phxworker/phxworker/runner"
)

var _ runner.PartialEngine = (*Engine)(nil)

// otherwise are the words for what QuickJS may do otherwise than Node: the words of errors that a job catches, numbers
// without an end in a state, and whatever tells that jobs there are in a context of their own, and their states are not.
var otherwise = setOf("catch allSettled stack instanceof constructor prototype __proto__ getPrototypeOf setPrototypeOf BigInt collections")

// exact are the members of Math that come to the same everywhere. The language leaves the last digit of the others open.
var exact = setOf("E LN10 LN2 LOG10E LOG2E PI SQRT1_2 SQRT2 abs ceil clz32 floor fround imul max min random round sign sqrt trunc")

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
	globals := otherwiseIn(globalsOf(plan))
	for i := range plan.Jobs {
		if word := cmp.Or(otherwiseIn(plan.Jobs[i].Body), globals); word != "" {
			return &refusal{&plan.Jobs[i], "says " + word + ", which may come to something else in Node", false}
		}
	}
	for i := range plan.Edges {
		if word := otherwiseIn(plan.Edges[i].Condition); word != "" {
			return &refusal{nil, "says " + word + ", which may come to something else in Node", false}
		}
	}
	if most := e.cfg.MostInput; most > 0 && int64(len(run.Input)) > most {
		return fmt.Errorf("its input has %.1f MB, over the %.1f MB up to which the embedded engine is the faster one", megabytes(int64(len(run.Input))), megabytes(most))
	}
	_, err := e.needs(ctx, run)
	return err
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// otherwiseIn returns what a code says that may come to something else in Node, "" for nothing.
func otherwiseIn(code string) string {
	if power.MatchString(code) {
		return "**"
	}
	return findWord(code, isOtherwise)
}

// power is the operator, which is exact no more than Math.pow. In comments, stars stand beside a slash or in rows.
var power = regexp.MustCompile(`(^|[^*/])\*\*($|[^*/])`)

func isOtherwise(word, after string) bool {
	after = strings.TrimLeft(after, spaces+"?")
	switch word {
	case "Date":
		return !inUTC
	case "Math":
		name := memberName.FindStringSubmatch(after)
		return name == nil || !exact[name[1]]
	case "RegExp": // what it keeps of the last match, such as $1
		return strings.HasPrefix(after, ".") || strings.HasPrefix(after, "[")
	case "sort", "toSorted": // by a function, which may contradict itself, as (a, b) => a > b does
		arguments, called := argumentsIn(after)
		return called && !strings.HasPrefix(arguments, ")")
	case "then": // with a second function, which is given the words of errors
		arguments, called := argumentsIn(after)
		return called && hasSecond(arguments)
	}
	return otherwise[word] || word[0] <= '9' && word[0] >= '0' && word[len(word)-1] == 'n'
}

// memberName finds the name of a member, at the beginning of what follows the name of an object.
var memberName = regexp.MustCompile(`^\.\s*(\w+)`)

// argumentsIn returns what follows the bracket of a call, given what follows the name, and whether there is one.
func argumentsIn(after string) (string, bool) {
	arguments, called := strings.CutPrefix(strings.TrimLeft(after, spaces+"?."), "(")
	return strings.TrimLeft(arguments, spaces), called
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
			if depth == 0 && !strings.HasPrefix(strings.TrimLeft(arguments[i+1:], spaces), ")") {
				return true
			}
		}
	}
	return true
}

const spaces = " \t\r\n"

func isOfLanguages(word, _ string) bool {
	return ofLanguages[word] || strings.HasPrefix(word, "toLocale")
}

// findWord returns the first word of a code for which is returns true, given what comes after it, "" for none. What is
// in a text or a comment counts as well: that a job says a word in vain does no harm.
func findWord(code string, is func(word, after string) bool) string {
	for i := 0; i < len(code); i++ {
		start := i
		for i < len(code) && isWordByte(code[i]) {
			i++
		}
		if i > start && is(code[start:i], code[i:]) {
			return code[start:i]
		}
	}
	return ""
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}
