// Package changeset casts and validates payloads as Ecto, Elixir's library for databases,
// does for Lightning, with the words of its refusals.
package changeset

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/google/uuid"
)

// The words of Lightning's refusals.
const (
	Blank     = "This field can't be blank."
	Invalid   = "is invalid"
	Taken     = "has already been taken"
	NotExist  = "does not exist"
	Completed = "already in completed state"
)

// Changeset casts and validates the fields of a payload the way an Ecto changeset
// does: null and the empty string are as good as absent, and every fault is
// collected under its field.
type Changeset struct {
	Fields map[string]json.RawMessage
	Errors map[string][]string // by field
}

// New returns nil if the payload is not an object.
func New(payload []byte) *Changeset {
	c := &Changeset{}
	if json.Unmarshal(payload, &c.Fields) != nil || c.Fields == nil {
		return nil
	}
	return c
}

// Fail adds a fault to those of a field.
func (c *Changeset) Fail(field, message string) {
	if c.Errors == nil {
		c.Errors = make(map[string][]string)
	}
	c.Errors[field] = append(c.Errors[field], message)
}

// Valid reports whether no fault was found.
func (c *Changeset) Valid() bool { return len(c.Errors) == 0 }

// Response is the plain shape of a refusal, {"field":["message"]}.
func (c *Changeset) Response() []byte {
	b, _ := json.Marshal(c.Errors) // strings always encode
	return b
}

// Absent reports whether a field is missing, null or an empty string.
func (c *Changeset) Absent(field string) bool {
	raw := c.Fields[field]
	return len(raw) == 0 || string(raw) == "null" || string(raw) == `""`
}

// Require fails the fields that are absent.
func (c *Changeset) Require(fields ...string) {
	for _, f := range fields {
		if c.Absent(f) {
			c.Fail(f, Blank)
		}
	}
}

// Str casts a string; it is empty if the field is absent or no string.
func (c *Changeset) Str(field string) string {
	if c.Absent(field) {
		return ""
	}
	var s string
	if json.Unmarshal(c.Fields[field], &s) != nil {
		c.Fail(field, Invalid)
	}
	return s
}

// UUID casts a string that must be a UUID.
func (c *Changeset) UUID(field string) string {
	s := c.Str(field)
	if s != "" && (len(s) != 36 || uuid.Validate(s) != nil) {
		c.Fail(field, Invalid)
	}
	return s
}

// Timestamp casts the field of that name, a time in microseconds as an integer
// or a decimal string.
func (c *Changeset) Timestamp() {
	const field = "timestamp"
	if c.Absent(field) {
		return
	}
	raw := string(c.Fields[field])
	if s, err := strconv.Unquote(raw); err == nil {
		raw = s
	}
	if _, err := strconv.ParseInt(raw, 10, 64); err != nil {
		c.Fail(field, Invalid)
	}
}

// OneOf casts a string that must be one of those given.
func (c *Changeset) OneOf(field string, values []string) {
	if s := c.Str(field); s != "" && !slices.Contains(values, s) {
		c.Fail(field, Invalid)
	}
}

// Nested is the other shape, {"errors":{"field":["message"]}}.
func Nested(field, message string) []byte {
	b, _ := json.Marshal(map[string]map[string][]string{"errors": {field: {message}}})
	return b
}
