package mockserver

import (
	"fmt"
	"os"

	"github.com/phxworker/phxworker/mockserver/lightning"
)

// Mode is how much a server knows.
type Mode int

// The modes.
const (
	// FromEnvironment is what the environment variable PHXWORKER_MOCK_MODE says,
	// lightning or extended, and Lightning if it is not set: so a whole suite of tests can be
	// run in either mode.
	FromEnvironment Mode = iota
	// Lightning knows no more than OpenFn Lightning does: a channel dies of any other
	// event.
	Lightning
	// Extended knows the extensions of docs/extensions as well, for the clients that offer them.
	Extended
)

// ModeVariable is the environment variable that the zero [Mode] follows.
const ModeVariable = "PHXWORKER_MOCK_MODE"

// String returns the mode's name, which [ParseMode] reads.
func (m Mode) String() string {
	switch m {
	case Lightning:
		return "lightning"
	case Extended:
		return "extended"
	default:
		return ""
	}
}

// ParseMode reads lightning or extended; nothing is [FromEnvironment].
func ParseMode(name string) (Mode, error) {
	for _, m := range []Mode{FromEnvironment, Lightning, Extended} {
		if name == m.String() {
			return m, nil
		}
	}
	return FromEnvironment, fmt.Errorf("there is no mode %q: it is lightning or extended", name)
}

// ExtensionNames returns the names of the extensions that [Extended] knows.
func ExtensionNames() []string { return lightning.ExtensionNames() }

// known returns the mode itself, or what the environment says.
func (m Mode) known() (Mode, error) {
	switch m {
	case Lightning, Extended:
		return m, nil
	case FromEnvironment:
	default:
		return m, fmt.Errorf("there is no mode %d: it is Lightning or Extended", m)
	}
	m, err := ParseMode(os.Getenv(ModeVariable))
	if err != nil {
		return m, fmt.Errorf("%s: %w", ModeVariable, err)
	}
	if m == FromEnvironment {
		m = Lightning
	}
	return m, nil
}
