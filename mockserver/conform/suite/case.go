package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Level is how much a case matters.
type Level string

// The levels, as RFC 2119 has them.
const (
	// Must: without it runs are lost, come twice, or take others with them.
	Must Level = "must"
	// Should: without it things are slower or harder to see.
	Should Level = "should"
	// May: one good way of several.
	May Level = "may"
)

// Spec is the version of Lightning whose behaviour is asked for.
type Spec string

// The versions that differ in what is tested.
const (
	// Spec215 is Lightning 2.15 to 2.18: the output of a step is a text with JSON in it.
	Spec215 Spec = "2.15"
	// Spec219 is Lightning 2.19 and later: it may be the JSON itself as well.
	Spec219 Spec = "2.19"
)

// Specs are all versions, the oldest first.
func Specs() []Spec { return []Spec{Spec215, Spec219} }

// ParseSpec reads the name of a version; nothing is the newest.
func ParseSpec(name string) (Spec, error) {
	switch spec := Spec(name); {
	case name == "":
		return Spec219, nil
	case slices.Contains(Specs(), spec):
		return spec, nil
	}
	return "", fmt.Errorf("there is no spec %q: it is 2.15 or 2.19", name)
}

// Case is one thing that the subject has to do.
type Case struct {
	// ID is a letter for the mode and two numbers, such as W4.2. Ids are never given anew.
	ID string
	// Title says in a few words what the subject does when it is right.
	Title string
	Level Level
	// Why is one sentence: what happens to people when the subject does not do it.
	Why string
	// Source is where it is laid down: a behaviour of Lightning, ws-worker or Phoenix, or a page of ours.
	Source string
	// Specs are the versions that it is for. Defaults to all.
	Specs []Spec
	// Limit is how long the case may take. Defaults to 10 s.
	Limit time.Duration
	// Slow cases wait for what the protocol has in minutes. They are tried only with [Options].Slow.
	Slow bool
	// Run is the case. It must return soon when the context of its T has ended.
	Run func(*T)
}

const defaultLimit = 10 * time.Second

// Select returns the cases that the patterns name, in the order of the cases. A pattern is the id of a
// case, or the beginning of ids up to a dot: W4 is W4.1 and all its neighbours, but W4.2 is not W4.20. No
// pattern selects all. A pattern that names no case is an error.
func Select(cases []Case, patterns []string) ([]Case, error) {
	if len(patterns) == 0 {
		return cases, nil
	}
	for _, p := range patterns {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.is(p) }) {
			return nil, fmt.Errorf("there is no case %q: --list shows all", p)
		}
	}
	var out []Case
	for _, c := range cases {
		if slices.ContainsFunc(patterns, c.is) {
			out = append(out, c)
		}
	}
	return out, nil
}

func (c Case) is(pattern string) bool {
	return c.ID == pattern || strings.HasPrefix(c.ID, pattern+".")
}
