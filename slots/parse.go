package slots

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxGroupSlots is the largest number of slots [Parse] takes for one group. It
// is far beyond what a process can run, and small enough that adding groups up
// cannot overflow.
const MaxGroupSlots = 1_000_000

// Parse reads slot groups separated by white space, such as
// "fast_lane:1 manual>*:4".
//
// A group is its queues in the order of preference, separated by ">", then ":"
// and the number of slots, from 1 to [MaxGroupSlots]. A queue's name has ASCII
// letters, digits and "_"; the last one may be "*" for every other queue. The
// older comma means the same as ">": "manual,*:4" is "manual>*:4".
//
// A text that breaks a rule is refused whole with a [*SyntaxError]. What is
// allowed but hardly meant comes back as warnings, one line each: a queue twice
// in a group (the repeat is left out), two groups alike, a queue that Lightning
// does not know, and no group with "*", so that runs of other queues would never
// be claimed.
func Parse(spec string) (groups []Group, warnings []string, err error) {
	tokens := strings.Fields(spec)
	if len(tokens) == 0 {
		return nil, nil, &SyntaxError{
			Group: spec, Token: spec,
			Problem: "there is no group in it",
			Remedy:  `write at least one, such as "manual>*:4"`,
		}
	}
	for _, token := range tokens {
		group, repeated, err := parseGroup(token)
		if err != nil {
			return nil, nil, err
		}
		for _, queue := range repeated {
			warnings = append(warnings, fmt.Sprintf("slot group %q: queue %q is named more than once; the first place counts", token, queue))
		}
		groups = append(groups, group)
	}
	return groups, append(warnings, doubts(groups)...), nil
}

// parseGroup reads one group, and returns the queues it named again.
func parseGroup(token string) (group Group, repeated []string, err error) {
	fault := func(part, problem, remedy string) (Group, []string, error) {
		return Group{}, nil, &SyntaxError{Group: token, Token: part, Problem: problem, Remedy: remedy}
	}

	// The last colon, so that a forgotten space ("fast_lane:1manual:4") is
	// reported as a bad name and not as a bad count.
	colon := strings.LastIndexByte(token, ':')
	if colon < 0 {
		return fault(token, "the number of slots is missing", fmt.Sprintf("write it after a colon, with no space before it: %q", token+":1"))
	}
	list, count := token[:colon], token[colon+1:]
	slots, ok := parseCount(count)
	if !ok {
		return fault(count, "is not a number of slots", fmt.Sprintf("write an integer from 1 to %d after the colon", MaxGroupSlots))
	}

	names := strings.Split(strings.ReplaceAll(list, ",", ">"), ">")
	queues := make([]string, 0, len(names))
	for i, name := range names {
		switch {
		case name == "":
			return fault(list, "has an empty queue name", `write a name on both sides of every ">" and before the colon, with no spaces around them`)
		case name == wildcard && i < len(names)-1:
			return fault(list, `has a queue after "*"`, `put "*" last: nothing is left for a queue that comes after it`)
		case name != wildcard && !validName(name):
			return fault(name, "is not a queue name", `use letters, digits and "_", ">" between queues and a space between groups`)
		case slices.Contains(queues, name):
			if !slices.Contains(repeated, name) {
				repeated = append(repeated, name)
			}
		default:
			queues = append(queues, name)
		}
	}
	return newGroup(queues, slots), repeated, nil
}

// parseCount takes decimal digits only: no sign, no fraction, no exponent.
func parseCount(s string) (n int, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= MaxGroupSlots
}

func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != ""
}

// doubts returns the warnings about groups as a whole.
func doubts(groups []Group) (warnings []string) {
	var seen, alike, unknown []string
	starve := true
	for _, g := range groups {
		if slices.Contains(seen, g.Name) && !slices.Contains(alike, g.Name) {
			alike = append(alike, g.Name)
		}
		seen = append(seen, g.Name)
		for _, queue := range g.Queues {
			switch {
			case queue == wildcard:
				starve = false
			case !knownToLightning(queue) && !slices.Contains(unknown, queue):
				unknown = append(unknown, queue)
			}
		}
	}
	for _, name := range alike {
		warnings = append(warnings, fmt.Sprintf("slot group %q is there more than once; one group with the sum of the slots does the same with fewer claims", name))
	}
	for _, queue := range unknown {
		warnings = append(warnings, fmt.Sprintf("queue %q is not one of Lightning's (manual, fast_lane, default); no run may ever come from it", queue))
	}
	if starve {
		warnings = append(warnings, `no slot group has "*": runs of queues that are not named will never be claimed by this worker`)
	}
	return warnings
}

// knownToLightning reports whether OpenFn Lightning puts runs in that queue.
func knownToLightning(queue string) bool {
	return queue == "manual" || queue == "fast_lane" || queue == "default"
}
