package js

import (
	"encoding/json"
	"regexp"
)

// wordings turn what QuickJS says into what V8 says, which is what people know
// and look for.
var wordings = []struct {
	quickjs *regexp.Regexp
	v8      string
}{
	{regexp.MustCompile(`^'(.+)' is not defined$`), "$1 is not defined"},
	{regexp.MustCompile(`^cannot read property '(.*)' of (undefined|null)$`), "Cannot read properties of $2 (reading '$1')"},
	{regexp.MustCompile(`^cannot set property '(.*)' of (undefined|null)$`), "Cannot set properties of $2 (setting '$1')"},
	{regexp.MustCompile(`^Could not find export '(.+)' in module '(.+)'$`), "The requested module '$2' does not provide an export named '$1'"},
	{regexp.MustCompile(`^module normalization failed: (.*)$`), "$1"},
	{regexp.MustCompile(`^stack overflow$`), "Maximum call stack size exceeded"},
}

// reword gives an error of QuickJS's own the message and the class that V8 would
// give it.
func (t *thrown) reword() {
	switch t.Class {
	case "InternalError":
		if t.Text != "stack overflow" {
			return
		}
		t.Class, t.Name = "RangeError", "RangeError"
	case "TypeError", "ReferenceError", "SyntaxError":
	default:
		return
	}
	for _, w := range wordings {
		if !w.quickjs.MatchString(t.Text) {
			continue
		}
		t.Text = w.quickjs.ReplaceAllString(t.Text, w.v8)
		var details map[string]any
		if json.Unmarshal(t.Details, &details) == nil && details != nil {
			details["message"] = t.Text
			t.Details, _ = json.Marshal(details) // what was JSON can be JSON again
		}
		return
	}
}
