package options

import (
	"fmt"
	"strings"
)

// Help returns the help on all options, for a terminal of 80 columns.
func Help() string {
	var b strings.Builder
	for group := range other {
		fmt.Fprintf(&b, "%s:\n", group)
		for _, o := range Table() {
			if o.Group == group {
				fmt.Fprintf(&b, "  %s\n%s", o.heading(), fold(o.describe(), "      "))
			}
		}
		b.WriteByte('\n')
	}
	var names []string
	for _, o := range Table() {
		if o.Group == other {
			names = append(names, o.Name())
		}
	}
	b.WriteString("Options of ws-worker that have no effect here, and say so in the log when set:\n")
	b.WriteString(fold(strings.Join(names, ", ")+".", "  "))
	return b.String()
}

// heading returns what is typed: the names, short ones first, and the value.
func (o Option) heading() string {
	if o.Flag == "" {
		return o.Env[0] + "=" + o.Placeholder
	}
	var short, long []string
	for _, name := range append([]string{o.Flag}, o.Aliases...) {
		if len(name) == 1 {
			short = append(short, "-"+name)
		} else {
			long = append(long, "--"+name)
		}
	}
	names := strings.Join(append(short, long...), ", ")
	if o.Placeholder == "" {
		return names
	}
	return names + " " + o.Placeholder
}

func (o Option) describe() string {
	text := o.Usage
	if o.Default != "" {
		text += "; default " + o.Default
	}
	switch {
	case o.Flag == "" && len(o.Env) > 1:
		text += " (or " + strings.Join(o.Env[1:], ", ") + ")"
	case o.Flag != "" && len(o.Env) > 0:
		text += " (" + strings.Join(o.Env, ", ") + ")"
	}
	return text
}

// fold breaks text into lines that start with the indent and end before the
// 80th column where a space allows it.
func fold(text, indent string) string {
	const width = 79
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}
