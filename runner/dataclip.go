package runner

import (
	"encoding/json"
	"strconv"
)

// outputDataclip returns a step's output as an event carries it, nil for none: as a text with JSON in
// it or, natively, as an object. A text that is sent natively would be taken for JSON, over which
// Lightning's channel crashes where it is none, and what is no object it does not store: so that is wrapped.
func outputDataclip(state string, native bool) any {
	switch {
	case state == "":
		return nil
	case !native:
		return state
	}
	return finalState(json.RawMessage(state))
}

// sizeMB writes how large a dataclip is, in MB of 2^20 bytes with three digits that count, as OpenFn's worker
// does. It is empty for one whose size is not known.
func sizeMB(bytes int) string {
	if bytes == 0 {
		return ""
	}
	const digits = 3
	text := strconv.FormatFloat(float64(bytes)/(1<<20), 'e', digits-1, 64)
	exponent, _ := strconv.Atoi(text[len("1.23e"):])
	rounded, _ := strconv.ParseFloat(text, 64)
	return strconv.FormatFloat(rounded, 'f', max(digits-1-exponent, 0), 64)
}
