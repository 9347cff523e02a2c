package slots

import "fmt"

// SyntaxError is a text that [Parse] does not take as slot groups.
type SyntaxError struct {
	// Group is the group at fault as it was written, "fast-lane:1", or the
	// whole text when it has no group at all.
	Group string
	// Token is the part of Group to change, "fast-lane". It may be all of it,
	// or empty where something is missing.
	Token string
	// Problem is what is wrong with Token, and Remedy what to do about it.
	Problem, Remedy string
}

// Error returns one line that quotes the token and says what to write instead.
func (e *SyntaxError) Error() string {
	if e.Token == e.Group {
		return fmt.Sprintf("slot group %q: %s; %s", e.Group, e.Problem, e.Remedy)
	}
	return fmt.Sprintf("slot group %q: %q %s; %s", e.Group, e.Token, e.Problem, e.Remedy)
}
