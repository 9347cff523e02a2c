package options

import (
	"strings"

	"github.com/urfave/cli/v3"
)

// Option is one row of [Table].
type Option struct {
	// Flag is the long name without its dashes; empty if there are only
	// variables.
	Flag string
	// Aliases are more names of the flag; those of one letter take one dash.
	Aliases []string
	// Env are the environment variables, the first that is set counts.
	Env []string
	// Kind is what values look like.
	Kind Kind
	// Group is the heading it stands under in the help.
	Group Group
	// Placeholder stands for the value in the help.
	Placeholder string
	// Default is the value of an option that is not set; empty if there is none.
	Default string
	// Usage is what the option does, in one line.
	Usage string
	// NoEffect is why the option does nothing here. Empty for one that works.
	NoEffect string
	// Ours tells that ws-worker does not have the option.
	Ours bool
	// Secret tells that nobody must see the value.
	Secret bool
}

// Key returns what the option is called in a config file: its flag without the
// dashes, or a word of its variable.
func (o Option) Key() string {
	if o.Flag != "" {
		return o.Flag
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(o.Env[0], ofWorkers)), "_", "-")
}

// Name returns what the option is called: its flag, or else its first variable.
func (o Option) Name() string {
	if o.Flag != "" {
		return "--" + o.Flag
	}
	return o.Env[0]
}

// Kind is what the values of an option look like.
type Kind int

// The kinds. A toggle takes no value; --no-NAME turns it off. A list has commas
// between its items, or spaces on the command line.
const (
	Text Kind = iota
	Toggle
	List
)

// Group is a heading of the help.
type Group int

// The groups, in the order of the help.
const (
	Server Group = iota
	Claims
	Runs
	Serving
	Logs
	other // of options without effect, which the help only names
)

func (g Group) String() string {
	switch g {
	case Server:
		return "Server"
	case Claims:
		return "Slots and claims"
	case Runs:
		return "Runs"
	case Serving:
		return "HTTP: health, metrics, control"
	case Logs:
		return "Log and error reports"
	case other:
		return "Without effect"
	}
	return "unknown"
}

// Flags returns new flags for the whole table, ready to be parsed once. They
// know nothing of the environment: [Read] has to tell the two apart.
func Flags() []cli.Flag {
	var flags []cli.Flag
	for _, o := range Table() {
		switch {
		case o.Flag == "":
		case o.Kind == Toggle:
			flags = append(flags, &cli.BoolWithInverseFlag{Name: o.Flag, Aliases: o.Aliases, Usage: o.Usage})
		case o.Kind == List:
			flags = append(flags, &cli.StringSliceFlag{Name: o.Flag, Aliases: o.Aliases, Usage: o.Usage})
		default:
			flags = append(flags, &cli.StringFlag{Name: o.Flag, Aliases: o.Aliases, Usage: o.Usage})
		}
	}
	return flags
}
