package js

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// wordings turn what QuickJS says into what V8 says, which is what people know
// and look for. Where V8 tells a value that nobody noted, its words end before that.
// They are compiled when a job first fails: each start of a worker would wait for them.
var wordings = sync.OnceValue(func() []wording {
	return []wording{
		{regexp.MustCompile(`^'(.+)' is not defined$`), "$1 is not defined"},
		{regexp.MustCompile(`^this is not initialized$`), "Must call super constructor in derived class before accessing 'this' or returning from derived constructor"},
		{regexp.MustCompile(`^(.+) is not initialized$`), "Cannot access '$1' before initialization"},
		{regexp.MustCompile(`^cannot read property 'Symbol\.iterator' of (undefined|null)$`), "$1 is not iterable"},
		{regexp.MustCompile(`^cannot read property '(.*)' of (undefined|null)$`), "Cannot read properties of $2 (reading '$1')"},
		{regexp.MustCompile(`^cannot read property of (undefined|null)$`), "Cannot read properties of $1"},
		{regexp.MustCompile(`^cannot set property '(.*)' of (undefined|null)$`), "Cannot set properties of $2 (setting '$1')"},
		{regexp.MustCompile(`^cannot set property of (undefined|null)$`), "Cannot set properties of $1"},
		{regexp.MustCompile(`^Could not find export '(.+)' in module '(.+)'$`), "The requested module '$2' does not provide an export named '$1'"},
		{regexp.MustCompile(`^unexpected token in expression: ''$`), "Unexpected end of input"},
		{regexp.MustCompile(`^unexpected token in expression: ('.+')$`), "Unexpected token $1"},
		{regexp.MustCompile(`^stack overflow$`), "Maximum call stack size exceeded"},
		{regexp.MustCompile(`^invalid array length$`), "Invalid array length"},
		{regexp.MustCompile(`^invalid string length$`), "Invalid string length"},
		{regexp.MustCompile(`^invalid repeat count$`), "Invalid count value"},
		{regexp.MustCompile(`^Date value is NaN$`), "Invalid time value"},
		{regexp.MustCompile(`^radix must be between 2 and 36$`), "toString() radix argument must be between 2 and 36"},
		{regexp.MustCompile(`^bad normalization form$`), "The normalization form should be one of NFC, NFD, NFKC, NFKD."},
		{regexp.MustCompile(`^cannot convert to object$`), "Cannot destructure as it is undefined or null."},
		{regexp.MustCompile(`^invalid value used as WeakMap key$`), "Invalid value used as weak map key"},
		{regexp.MustCompile(`^invalid value used as WeakSet key$`), "Invalid value used in weak set"},
		{regexp.MustCompile(`^empty array$`), "Reduce of empty array with no initial value"},
		{regexp.MustCompile(`^circular reference$`), "Converting circular structure to JSON"},
		{regexp.MustCompile(`^cannot convert symbol to (string|number)$`), "Cannot convert a Symbol value to a $1"},
		{regexp.MustCompile(`^cannot convert bigint to number$`), "Cannot mix BigInt and other types, use explicit conversions"},
		{regexp.MustCompile(`^BigInt division by zero$`), "Division by zero"},
		{regexp.MustCompile(`^toPrimitive$`), "Cannot convert object to primitive value"},
		{regexp.MustCompile(`^parent class must be constructor$`), "Class extends value is not a constructor or null"},
		{regexp.MustCompile(`^cannot invoke a running generator$`), "Generator is already running"},
		{regexp.MustCompile(`^expecting (hex digit|surrogate pair)$`), "URI malformed"},
		{regexp.MustCompile(`^invalid regular expression flags$`), "Invalid flags supplied to RegExp constructor"},
	}
})

type wording struct {
	quickjs *regexp.Regexp
	v8      string
}

// reword gives an error of QuickJS's own the message and the class that V8 would
// give it.
func (t *thrown) reword() {
	switch t.Class {
	case "InternalError":
		if t.Text != "stack overflow" {
			return
		}
		t.Class, t.Name, t.First = "RangeError", "RangeError", "RangeError"
	case "TypeError", "ReferenceError", "SyntaxError", "RangeError", "URIError":
	default:
		return
	}
	for _, w := range wordings() {
		if w.quickjs.MatchString(t.Text) {
			t.say(w.quickjs.ReplaceAllString(t.Text, w.v8))
			return
		}
	}
}

// say changes the message, which comes first in the details.
func (t *thrown) say(text string) {
	t.Text = text
	details := json.NewDecoder(bytes.NewReader(t.Details))
	var message json.RawMessage
	_, _ = details.Token() // the brace
	if name, _ := details.Token(); name != "message" || details.Decode(&message) != nil {
		return
	}
	said, _ := json.Marshal(text) // cannot fail
	t.Details = slices.Concat([]byte(`{"message":`), said, t.Details[details.InputOffset():])
}

var (
	nativeFrame = regexp.MustCompile(`^\s*at (.*) \(native\)`)
	readOnly    = regexp.MustCompile(`^'(.+)' is read-only$`)
)

// ofFunction are the words for mistakes of those who call a function of the language, by its name and what QuickJS says.
var ofFunction = map[[2]string]string{
	{"toFixed", "invalid number of digits"}:         "toFixed() digits argument must be between 0 and 100",
	{"toExponential", "invalid number of digits"}:   "toExponential() argument must be between 0 and 100",
	{"toPrecision", "invalid number of digits"}:     "toPrecision() argument must be between 1 and 100",
	{"keys", cannotConvert}:                         nullToObject,
	{"values", cannotConvert}:                       nullToObject,
	{"entries", cannotConvert}:                      nullToObject,
	{"assign", cannotConvert}:                       nullToObject,
	{"matchAll", "regexp must have the 'g' flag"}:   "String.prototype.matchAll called with a non-global RegExp argument",
	{"replaceAll", "regexp must have the 'g' flag"}: "String.prototype.replaceAll called with a non-global RegExp argument",
}

const (
	cannotConvert = "cannot convert to object"
	nullToObject  = "Cannot convert undefined or null to object"
)

// name says of an error of QuickJS's own what it is about, as V8 does.
func (s *step) name(t *thrown, frames frames) {
	defer t.reword()
	if t.Class != "TypeError" && t.Class != "RangeError" {
		return
	}
	if t.nameNative() || len(frames) == 0 {
		return
	}
	if words := s.wordsFor(t.Text, frames[0]); words != "" {
		t.say(words)
	}
}

// nameNative says of an error of one of the language's own functions which it was. It reports whether it is one.
func (t *thrown) nameNative() bool {
	native := nativeFrame.FindStringSubmatch(t.Stack)
	if native == nil {
		return false
	}
	if words := ofFunction[[2]string{native[1], t.Text}]; words != "" {
		t.say(words)
	}
	return true
}

// named are the words that need a name from the code, by what QuickJS says. They are "" where there is none.
var named = map[string]func(*culprit) string{
	"not a constructor": func(c *culprit) string {
		if name, constructor := c.called(); constructor && name != "" {
			return name + " is not a constructor"
		}
		return ""
	},
	"not a function": func(c *culprit) string {
		switch name, constructor := c.called(); {
		case name == "":
			return ""
		case constructor:
			return name + " is not a constructor"
		default:
			return name + " is not a function"
		}
	},
	noNew: func(c *culprit) string {
		if name, _ := c.called(); name != "" {
			return "Class constructor " + name + " cannot be invoked without 'new'"
		}
		return ""
	},
	"object is not extensible":  ofProperty("Cannot add property ", ", object is not extensible"),
	"could not delete property": func(c *culprit) string { return ofProperty("Cannot delete property '", "' of "+c.object())(c) },
	"no setter for property":    ofProperty("Cannot set property ", " of #<Object> which has only a getter"),
	"value is not iterable":     (*culprit).iterated,
	noIterator + "undefined":    iteratedOr("undefined"),
	noIterator + "null":         iteratedOr("null"),
	cannotRead + "undefined":    ofKey(cannotRead+"undefined", "reading"),
	cannotRead + "null":         ofKey(cannotRead+"null", "reading"),
}

const (
	noNew      = "class constructors must be invoked with 'new'"
	noIterator = "cannot read property 'Symbol.iterator' of "
	cannotRead = "cannot read property of "
)

func ofProperty(before, after string) func(*culprit) string {
	return func(c *culprit) string {
		if name := c.property(); name != "" {
			return before + name + after
		}
		return ""
	}
}

func iteratedOr(what string) func(*culprit) string {
	return func(c *culprit) string {
		if words := c.iterated(); words != "" {
			return words
		}
		return what + " is not iterable (cannot read property Symbol(Symbol.iterator))"
	}
}

func ofKey(text, verb string) func(*culprit) string {
	return func(c *culprit) string {
		if key := c.key(); key != "" {
			return strings.Replace(text, "cannot read property", "Cannot read properties", 1) + " (" + verb + " '" + key + "')"
		}
		return ""
	}
}

// wordsFor returns V8's words for what QuickJS says of a place, "" if there are no others.
func (s *step) wordsFor(text string, f frame) string {
	words, property := named[text], readOnly.FindStringSubmatch(text)
	if words == nil && property == nil {
		return ""
	}
	c := s.culpritAt(f)
	switch {
	case c == nil:
		return ""
	case words != nil:
		return words(c)
	}
	if c.isConstant(property[1]) {
		return "Assignment to constant variable."
	}
	return "Cannot assign to read only property '" + property[1] + "' of object '" + c.object() + "'"
}
