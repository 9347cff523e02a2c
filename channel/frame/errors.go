package frame

import "fmt"

// SyntaxError says why a message is not a frame.
type SyntaxError struct {
	// Reason is what is wrong, as part of a sentence.
	Reason string
	// Start is the beginning of the message, quoted, at most 40 bytes of it. It
	// stops before the payload can begin, for payloads may hold secrets.
	Start string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not a Phoenix V2 message: %s (it begins with %s)", e.Reason, e.Start)
}

func syntaxError(data []byte, reason string) error {
	const shown = 40
	start := data[:min(len(data), shown)]
	for i, c := range start {
		if c == '{' {
			start = start[:i]
			break
		}
	}
	return &SyntaxError{Reason: reason, Start: fmt.Sprintf("%q", start)}
}
