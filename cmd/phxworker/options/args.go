package options

import (
	"fmt"
	"slices"
	"strings"
)

// Normalize returns the arguments as the flags here take them. It translates
// two forms that ws-worker takes and that are at home in no Go program: a list
// as several words (--state-props-to-remove a b), and the value of a toggle as
// a word of its own (--loop false). The words that a toggle takes behind a "=" are
// those that it takes everywhere. The error is an [*Error]: a flag that has another
// one where its value should be, or a toggle that is set to no such word.
func Normalize(args []string) ([]string, error) {
	kinds := flagKinds()
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...), nil
		}
		if name, word, ok := strings.Cut(args[i], "="); ok && kinds[name] == Toggle {
			set, err := setToggle(name, word, kinds)
			if err != nil {
				return nil, err
			}
			out = append(out, set...)
			continue
		}
		out = append(out, args[i])
		kind, ok := kinds[args[i]]
		if !ok {
			continue
		}
		switch rest := args[i+1:]; kind {
		case List:
			n := slices.IndexFunc(rest, func(s string) bool { return strings.HasPrefix(s, "-") })
			if n < 0 {
				n = len(rest)
			}
			if n > 0 {
				out = append(out, strings.Join(rest[:n], ","))
				i += n
				continue
			}
			fallthrough
		case Text:
			if len(rest) == 0 {
				continue
			}
			name, _, _ := strings.Cut(rest[0], "=")
			if _, ok := kinds[name]; ok {
				return nil, &Error{Problem: fmt.Sprintf("%s has no value: %s after it is another option; if it is meant as the value, write %s=%s", args[i], name, args[i], name)}
			}
			out = append(out, rest[0])
			i++
		case Toggle:
			_, inverse := inverseOf(args[i], kinds)
			if !inverse && len(rest) > 0 && (rest[0] == "true" || rest[0] == "false") {
				out[len(out)-1] += "=" + rest[0]
				i++
			}
		}
	}
	return out, nil
}

// setToggle returns the argument that sets a toggle to a word; none for an empty
// one, which counts as no value here as everywhere.
func setToggle(name, word string, kinds map[string]Kind) ([]string, error) {
	on, ok := truth(word)
	switch positive, inverse := inverseOf(name, kinds); {
	case inverse:
		return nil, &Error{Problem: fmt.Sprintf("%s takes no value: write %s alone, or %s", name, name, positive)}
	case word == "":
		return nil, nil
	case !ok:
		return nil, &Error{Problem: fmt.Sprintf("%s %q is neither on nor off: write %s", name, word, toggleWords)}
	}
	return []string{fmt.Sprintf("%s=%t", name, on)}, nil
}

// inverseOf returns the flag that a name turns off, and reports whether it does: a flag may be called so itself.
func inverseOf(name string, kinds map[string]Kind) (string, bool) {
	rest, ok := strings.CutPrefix(name, "--no-")
	_, known := kinds["--"+rest]
	return "--" + rest, ok && known
}

// flagKinds returns the kind of each flag, by all that can be written for it.
func flagKinds() map[string]Kind {
	kinds := make(map[string]Kind)
	for _, o := range Table() {
		if o.Flag == "" {
			continue
		}
		for _, name := range append([]string{o.Flag}, o.Aliases...) {
			if len(name) == 1 {
				kinds["-"+name] = o.Kind
				continue
			}
			kinds["--"+name] = o.Kind
			if o.Kind == Toggle {
				kinds["--no-"+name] = Toggle
			}
		}
	}
	return kinds
}
