package fault

import "fmt"

// InvalidError refuses a rule.
type InvalidError struct {
	Field  string // such as delay, or [1].delay in a list
	Reason string // such as "can't be blank"
}

func (e *InvalidError) Error() string { return fmt.Sprintf("bad fault: %s %s", e.Field, e.Reason) }
