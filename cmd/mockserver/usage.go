package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// invalidValue is how package cli begins a complaint about a value.
var invalidValue = regexp.MustCompile(`^invalid value (".*") for flag -([\w-]+): `)

// explain words the parser's complaints for people.
func explain(cmd *cli.Command, err error) error {
	if name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
		return fmt.Errorf("there is no option --%s", strings.TrimLeft(name, "-"))
	}
	if name, missing := strings.CutPrefix(err.Error(), "flag needs an argument: "); missing {
		return fmt.Errorf("%s has no value", name)
	}
	match := invalidValue.FindStringSubmatch(err.Error())
	if match == nil {
		return err
	}
	value, name := match[1], match[2]
	i := slices.IndexFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return err
	}
	what := "is not a value for it"
	switch cmd.Flags[i].(type) {
	case *cli.DurationFlag:
		what = "is not a time: write it like 500ms, 30s or 5m"
	case *cli.IntFlag, *cli.Int64Flag, *cli.Uint64Flag:
		what = "is not a whole number"
	case *cli.BoolFlag:
		what = "is neither true nor false"
	}
	return errors.New("--" + cmd.Flags[i].Names()[0] + " " + value + " " + what)
}
