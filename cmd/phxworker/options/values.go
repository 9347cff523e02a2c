package options

import (
	"strconv"
	"strings"
)

// Values are what the options are set to, and where.
type Values struct {
	byKey map[string]value // also of options that are not set and have a default
	file  *file            // nil if there is none
}

// value is what an option is set to.
type value struct {
	text  string // "true" or "false" for a toggle; a list has commas
	rank  rank
	place string // what set it: a flag, a variable, or a line of a file
	from  string // the same for an error, which names the option
}

// rank is what kind of place a value comes from. The higher beats the lower.
type rank int

const (
	byDefault rank = iota
	byFile
	byVariable
	byFlag
)

// Collect returns what the command line, the environment and the config file set.
// The flags must be those of [Flags]; getenv returns what the environment holds,
// empty for a variable that is not there. The error is an [*Error], of a config
// file that cannot be read.
func Collect(flags Parsed, getenv func(string) string) (*Values, error) {
	values := &Values{byKey: make(map[string]value)}
	for _, o := range Table() {
		if v, ok := o.lookup(flags, getenv); ok {
			values.byKey[o.Key()] = v
		}
	}
	if v, ok := values.byKey[configKey]; ok {
		f, err := readFile(v)
		if err != nil {
			return nil, err
		}
		values.file = f
	}
	for _, o := range Table() {
		if _, ok := values.byKey[o.Key()]; ok {
			continue
		}
		if v, ok := values.file.lookup(o); ok {
			values.byKey[o.Key()] = v
		} else if o.Default != "" {
			values.byKey[o.Key()] = value{text: o.Kind.normal(o.Default), place: "default", from: o.Name()}
		}
	}
	return values, nil
}

// configKey is the option that names the config file.
const configKey = "config"

func (o Option) lookup(flags Parsed, getenv func(string) string) (value, bool) {
	if o.Flag != "" && flags.IsSet(o.Flag) {
		name, text := "--"+o.Flag, flags.String(o.Flag)
		switch o.Kind {
		case Toggle:
			text = strconv.FormatBool(flags.Bool(o.Flag))
		case List:
			text = strings.Join(flags.StringSlice(o.Flag), ",")
		case Text:
		}
		if o.Kind == Toggle && text == "false" {
			name = "--no-" + o.Flag
		}
		if text != "" {
			return value{text: text, rank: byFlag, place: name, from: name}, true
		}
	}
	for _, name := range o.Env {
		if text := getenv(name); text != "" {
			return value{text: o.Kind.normal(text), rank: byVariable, place: name, from: name}, true
		}
	}
	return value{}, false
}

// normal returns a toggle's word as true or false, and any other text as it is.
func (k Kind) normal(text string) string {
	if on, ok := truth(text); k == Toggle && ok {
		return strconv.FormatBool(on)
	}
	return text
}

// truth reads a word as a toggle, and reports whether it is one of [toggleWords].
func truth(text string) (on, ok bool) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}

// toggleWords are what a toggle takes, wherever it is set.
const toggleWords = "true, false, yes, no, on, off, 1 or 0"

// set returns the value of an option that somebody set.
func (v *Values) set(key string) (value, bool) {
	found, ok := v.byKey[key]
	return found, ok && found.rank > byDefault
}
