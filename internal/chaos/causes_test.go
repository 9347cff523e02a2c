package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// cause is why a run did not go as its script says. Every one but the first two is
// something that no worker can mend with the protocol as it is.
type cause string

const (
	done        cause = "went as it should"
	resentLater cause = "was given up, and made good from the spool"

	claimLost    cause = "the reply to its claim was lost: the server gave it to nobody"
	joinRefused  cause = "the server refused its join"
	tokenExpired cause = "its token expired before a (re)join"
	endRefused   cause = "the server refused its end in every form"
	fetchRefused cause = "the server refused its plan or a credential: exception"
	fetchGivenUp cause = "the server crashed over its plan, input or a credential for half a minute, or did not answer: exception"
	inputErased  cause = "the server erased its input with a reply that was lost: exception"
	stopped      cause = "its worker was aborted: cancel"

	eventRefused cause = "the server refused an event of it"
	lineOnce     cause = "a line was lost with a connection: at most once"
)

// tally counts causes.
type tally struct {
	runs   int
	causes map[cause]int
}

func (t *tally) add(other tally) {
	t.runs += other.runs
	if t.causes == nil {
		t.causes = make(map[cause]int)
	}
	for c, n := range other.causes {
		t.causes[c] += n
	}
}

func (t *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs", t.runs)
	byCount := func(a, b cause) int { return t.causes[b] - t.causes[a] }
	for _, c := range slices.SortedFunc(maps.Keys(t.causes), byCount) {
		fmt.Fprintf(&b, "\n%8d  %6.3f %%  %s", t.causes[c], 100*float64(t.causes[c])/float64(t.runs), c)
	}
	return b.String()
}
