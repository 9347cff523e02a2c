package slots

import (
	"strconv"
	"strings"
)

// wildcard stands for every queue that is not named before it.
const wildcard = "*"

// Group is a list of queues that share a number of slots. [Parse] reads it, or you write it by hand,
// without its name:
//
//	slots.Group{Queues: []string{"manual", "*"}, Slots: 4}
type Group struct {
	// Name is Queues in one word, "manual>*". It is the key of the group in the join payload and the
	// attribute "group" in logs. [Check] sets it.
	Name string
	// Queues are in the order of preference. With "*" as the last one, the group claims runs of any
	// queue, those of the named queues first; without it, only those. Do not change the slice: all
	// copies of the group share it.
	Queues []string
	// Slots is how many runs the group may hold at once.
	Slots int
}

// String returns the group as [Parse] reads it, "manual>*:4".
func (g Group) String() string {
	return g.Name + ":" + strconv.Itoa(g.Slots)
}

// Plain returns the one group of a worker that has a capacity and no groups: "manual>*", which claims
// runs of every queue, those of manual first.
func Plain(capacity int) []Group {
	return []Group{newGroup([]string{"manual", wildcard}, capacity)}
}

// Format returns groups in the form that [Parse] reads, "fast_lane:1 manual>*:4".
func Format(groups []Group) string {
	texts := make([]string, len(groups))
	for i, g := range groups {
		texts[i] = g.String()
	}
	return strings.Join(texts, " ")
}

func newGroup(queues []string, slots int) Group {
	return Group{Name: strings.Join(queues, ">"), Queues: queues, Slots: slots}
}
