package slots

import (
	"strconv"
	"strings"
)

// wildcard is the queue that stands for every queue not named before it.
const wildcard = "*"

// Group is a list of queues that share a number of slots. Besides by [Parse], it can
// be written by hand, without its name:
//
//	slots.Group{Queues: []string{"manual", "*"}, Slots: 4}
type Group struct {
	// Name is the canonical form of Queues, "manual>*". It is the key of the
	// group in the join payload and the attribute "group" in logs. [Check] fills
	// it in, whatever it was.
	Name string
	// Queues in the order of preference. With "*" as the last one, runs of any
	// queue can be claimed, the named ones first; without it, only theirs. To
	// be read only: it is shared with every copy of the group.
	Queues []string
	// Slots is how many runs the group may hold at once.
	Slots int
}

// String returns the group as [Parse] reads it, "manual>*:4".
func (g Group) String() string {
	return g.Name + ":" + strconv.Itoa(g.Slots)
}

// Plain returns what a worker with a plain capacity and no groups has: the one
// group "manual>*", which takes runs of every queue, those of manual first.
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
