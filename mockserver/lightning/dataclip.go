package lightning

import (
	"encoding/json"
	"fmt"

	"github.com/phxworker/phxworker/mockserver/changeset"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// Dataclips is which form of a step's output_dataclip a Lightning takes.
type Dataclips int

// The forms. A text with JSON in it is the older one; it is decoded, and one that is no JSON crashes the
// channel, in whatever version takes texts.
const (
	EitherDataclips Dataclips = iota // 2.19 and later: a text with JSON in it, or the JSON itself
	ObjectDataclips                  // those to come (lightning#5104): a JSON object alone
	TextDataclips                    // before 2.19: a text alone
)

var dataclipNames = map[Dataclips]string{EitherDataclips: "either", ObjectDataclips: "objects", TextDataclips: "texts"}

// String returns the name of the form, which [ParseDataclips] reads.
func (d Dataclips) String() string { return dataclipNames[d] }

// ParseDataclips reads either, objects or texts; nothing is either.
func ParseDataclips(name string) (Dataclips, error) {
	for d, known := range dataclipNames {
		if name == known {
			return d, nil
		}
	}
	if name == "" {
		return EitherDataclips, nil
	}
	return EitherDataclips, fmt.Errorf("there is no form %q of dataclips: it is either, objects or texts", name)
}

// cast checks the field output_dataclip. It returns a crash where Lightning's channel dies.
func (d Dataclips) cast(c *changeset.Changeset) (crash phoenix.Reply, dead bool) {
	const field = "output_dataclip"
	if c.Absent(field) {
		return phoenix.Reply{}, false
	}
	var text string
	isText := json.Unmarshal(c.Fields[field], &text) == nil
	switch {
	case isText && d == ObjectDataclips, !isText && d == TextDataclips, d == ObjectDataclips && c.Fields[field][0] != '{':
		c.Fail(field, changeset.Invalid)
	case isText && !json.Valid([]byte(text)):
		return phoenix.Crash("output_dataclip is a text that is no JSON: a text is decoded, so what is to stay one has to be encoded twice, or wrapped in an object"), true
	}
	return phoenix.Reply{}, false
}
