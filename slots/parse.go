package slots

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxGroupSlots is the largest number of slots of one group. It is far more than a process can execute,
// and so small that a sum of groups cannot overflow.
const MaxGroupSlots = 1_000_000

// Parse reads slot groups separated by white space, such as
// "fast_lane:1 manual>*:4".
//
// A group is its queues in the order of preference, separated by ">", then ":" and the number of slots,
// from 1 to [MaxGroupSlots]. The name of a queue has ASCII letters, digits and "_"; the last one may be
// "*" for every other queue. A comma means the same as ">", as in older workers: "manual,*:4" is
// "manual>*:4".
//
// A text that breaks a rule is refused whole with a [*SyntaxError]. [Check] warns of groups that are
// allowed but probably a mistake.
func Parse(spec string) ([]Group, error) {
	tokens := strings.Fields(spec)
	if len(tokens) == 0 {
		return nil, &SyntaxError{
			Group: spec, Token: spec,
			Problem: "there is no group in it",
			Remedy:  `write at least one, such as "manual>*:4"`,
		}
	}
	groups := make([]Group, len(tokens))
	for i, token := range tokens {
		var err error
		if groups[i], err = parseGroup(token); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// MustParse is [Parse] for a text that stands in a program: it panics with the error.
func MustParse(spec string) []Group {
	groups, err := Parse(spec)
	if err != nil {
		panic(err)
	}
	return groups
}

func parseGroup(token string) (Group, error) {
	// The last colon counts, so that a forgotten space ("fast_lane:1manual:4") is reported as a bad
	// name and not as a bad number.
	colon := strings.LastIndexByte(token, ':')
	if colon < 0 {
		return Group{}, &SyntaxError{
			Group: token, Token: token, Problem: "the number of slots is missing",
			Remedy: fmt.Sprintf("write it after a colon, with no space before it: %q", token+":1"),
		}
	}
	list, count := token[:colon], token[colon+1:]
	slots, err := strconv.Atoi(count)
	if err != nil || strings.Trim(count, digits) != "" { // Atoi also takes a sign
		slots = 0
	}
	group := newGroup(strings.Split(strings.ReplaceAll(list, ",", ">"), ">"), slots)
	return group, group.check(token, list, count)
}

const (
	digits = "0123456789"
	// nameLetters are the letters of queues' names.
	nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_" + digits
)

// check returns what is wrong with a group, as a [*SyntaxError] about the text that it was read from.
func (g Group) check(text, list, count string) error {
	fault := func(part, problem, remedy string) error {
		return &SyntaxError{Group: text, Token: part, Problem: problem, Remedy: remedy}
	}
	if g.Slots < 1 || g.Slots > MaxGroupSlots {
		return fault(count, "is not a number of slots", fmt.Sprintf("write an integer from 1 to %d after the colon", MaxGroupSlots))
	}
	for i, name := range g.Queues {
		switch {
		case name == "":
			return fault(list, "has an empty queue name", `write a name on both sides of every ">" and before the colon, with no spaces around them`)
		case name == wildcard && i < len(g.Queues)-1:
			return fault(list, `has a queue after "*"`, `put "*" last: nothing is left for a queue that comes after it`)
		case name != wildcard && strings.Trim(name, nameLetters) != "":
			return fault(name, "is not a queue name", `use letters, digits and "_", ">" between queues and a space between groups`)
		}
	}
	return nil
}

// Check returns groups in the form in which a worker uses them: with their names, each queue once in
// its group, and no two groups with the same queues. A group that [Parse] would refuse is a
// [*SyntaxError]. The warnings, one line each, are about what is allowed but probably a mistake: a
// queue twice in a group (its first place counts), two groups with the same queues (they become one,
// with the slots of both), a queue that Lightning does not know, and no group with "*", so that runs of
// other queues are never claimed.
func Check(groups []Group) (checked []Group, warnings []string, err error) {
	for _, g := range groups {
		named := newGroup(g.Queues, g.Slots)
		if len(g.Queues) == 0 {
			return nil, nil, &SyntaxError{
				Group: named.String(), Token: g.Name, Problem: "has no queues",
				Remedy: `fill in Queues, such as []string{"manual", "*"}, which the name is made of`,
			}
		}
		if err := named.check(named.String(), named.Name, strconv.Itoa(g.Slots)); err != nil {
			return nil, nil, err
		}
		var queues, repeated []string
		for _, queue := range g.Queues {
			if slices.Contains(queues, queue) {
				repeated = append(repeated, queue)
				continue
			}
			queues = append(queues, queue)
		}
		for _, queue := range distinct(repeated) {
			warnings = append(warnings, fmt.Sprintf("slot group %q: queue %q is named more than once; the first place counts", named, queue))
		}
		named = newGroup(queues, g.Slots)
		if i := slices.IndexFunc(checked, func(c Group) bool { return c.Name == named.Name }); i >= 0 {
			checked[i].Slots += named.Slots
			if err := checked[i].check(checked[i].String(), named.Name, strconv.Itoa(checked[i].Slots)); err != nil {
				return nil, nil, err
			}
			warnings = append(warnings, fmt.Sprintf("slot group %q is there more than once; they are taken for one, with the slots of all", named.Name))
			continue
		}
		checked = append(checked, named)
	}
	return checked, append(warnings, doubts(checked)...), nil
}

// doubts returns the warnings about groups as a whole.
func doubts(groups []Group) (warnings []string) {
	var unknown []string
	starve := true
	for _, g := range groups {
		for _, queue := range g.Queues {
			switch queue {
			case wildcard:
				starve = false
			case "manual", "fast_lane", "default":
			default:
				unknown = append(unknown, queue)
			}
		}
	}
	for _, queue := range distinct(unknown) {
		warnings = append(warnings, fmt.Sprintf("queue %q is not one of Lightning's (manual, fast_lane, default); no run may ever come from it", queue))
	}
	if starve {
		warnings = append(warnings, `no slot group has "*": runs of queues that are not named will never be claimed by this worker`)
	}
	return warnings
}

// distinct returns the names in their order, each once.
func distinct(names []string) (once []string) {
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

// SyntaxError says why [Parse] or [Check] refuses a slot group.
type SyntaxError struct {
	// Group is the group at fault as it was written, "fast-lane:1", or the whole text when it has no
	// group.
	Group string
	// Token is the part of Group to change, "fast-lane". It may be all of Group, or empty where
	// something is missing.
	Token string
	// Problem says what is wrong with Token, and Remedy what to do about it.
	Problem, Remedy string
}

// Error returns one line that quotes the token and says what to write instead.
func (e *SyntaxError) Error() string {
	if e.Token == e.Group {
		return fmt.Sprintf("slot group %q: %s; %s", e.Group, e.Problem, e.Remedy)
	}
	return fmt.Sprintf("slot group %q: %q %s; %s", e.Group, e.Token, e.Problem, e.Remedy)
}
