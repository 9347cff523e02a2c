package options

import (
	"slices"

	"github.com/phxworker/phxworker/slots"
)

// groupKeys are the options that say the same in different ways.
var groupKeys = []string{"capacity", "workloops", "queues"}

// chosenGroups returns the option that says what slots there are. The three
// exclude each other where they come from the same kind of place: then, rival is
// the second one.
func (v *Values) chosenGroups() (key string, rival value) {
	for _, candidate := range groupKeys {
		found, ok := v.byKey[candidate]
		switch chosen := v.byKey[key]; {
		case !ok:
		case key == "" || found.rank > chosen.rank:
			key, rival = candidate, value{}
		case found.rank == chosen.rank:
			rival = found
		}
	}
	return key, rival
}

// beaten reports whether an option gives way to another one that says what slots
// there are.
func (v *Values) beaten(key string) (by value, ok bool) {
	chosen, rival := v.chosenGroups()
	return v.byKey[chosen], slices.Contains(groupKeys, key) && key != chosen && rival.text == ""
}

// groups returns the slot groups.
func (r *reader) groups() []slots.Group {
	for _, key := range groupKeys {
		r.take(key)
	}
	key, rival := r.chosenGroups()
	chosen := r.byKey[key]
	if rival.text != "" {
		r.failf("%s and %s exclude each other: keep one of them", chosen.from, rival.from)
	}
	if key == "capacity" {
		return slots.Plain(r.count(chosen))
	}
	groups, err := slots.Parse(chosen.text)
	if err != nil {
		r.failf("%s: %v", chosen.from, err)
	}
	return groups
}
