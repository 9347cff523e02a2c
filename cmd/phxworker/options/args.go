package options

import (
	"slices"
	"strings"
)

// Normalize returns the arguments as the flags here take them. It translates
// two forms that ws-worker takes and that are at home in no Go program: a list
// as several words (--state-props-to-remove a b), and the value of a toggle as
// a word of its own (--loop false).
func Normalize(args []string) []string {
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		out = append(out, args[i])
		name, dashes := strings.CutPrefix(args[i], "--")
		if !dashes || strings.Contains(name, "=") {
			continue
		}
		switch rest := args[i+1:]; kindOf(name) {
		case List:
			n := slices.IndexFunc(rest, func(s string) bool { return strings.HasPrefix(s, "-") })
			if n < 0 {
				n = len(rest)
			}
			if n > 0 {
				out = append(out, strings.Join(rest[:n], ","))
			}
			i += n
		case Toggle:
			if len(rest) > 0 && (rest[0] == "true" || rest[0] == "false") {
				out[len(out)-1] += "=" + rest[0]
				i++
			}
		case Text:
		}
	}
	return out
}

func kindOf(flag string) Kind {
	for _, o := range Table() {
		if o.Flag == flag {
			return o.Kind
		}
	}
	return Text
}
