package lightning

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/google/uuid"
)

// The words of Lightning's refusals.
const (
	msgBlank     = "This field can't be blank."
	msgInvalid   = "is invalid"
	msgTaken     = "has already been taken"
	msgNotExist  = "does not exist"
	msgCompleted = "already in completed state"
)

// changeset casts and validates the fields of a payload the way an Ecto changeset
// does: null and the empty string are as good as absent, and every fault is
// collected under its field.
type changeset struct {
	fields map[string]json.RawMessage
	errors map[string][]string
}

// newChangeset returns nil if the payload is not an object.
func newChangeset(payload []byte) *changeset {
	c := &changeset{}
	if json.Unmarshal(payload, &c.fields) != nil || c.fields == nil {
		return nil
	}
	return c
}

func (c *changeset) fail(field, message string) {
	if c.errors == nil {
		c.errors = make(map[string][]string)
	}
	c.errors[field] = append(c.errors[field], message)
}

func (c *changeset) valid() bool { return len(c.errors) == 0 }

func (c *changeset) response() []byte { return errorResponse(c.errors) }

// absent reports whether a field is missing, null or an empty string.
func (c *changeset) absent(field string) bool {
	raw := c.fields[field]
	return len(raw) == 0 || string(raw) == "null" || string(raw) == `""`
}

func (c *changeset) require(fields ...string) {
	for _, f := range fields {
		if c.absent(f) {
			c.fail(f, msgBlank)
		}
	}
}

// str casts a string; it is empty if the field is absent or no string.
func (c *changeset) str(field string) string {
	if c.absent(field) {
		return ""
	}
	var s string
	if json.Unmarshal(c.fields[field], &s) != nil {
		c.fail(field, msgInvalid)
	}
	return s
}

// uuid casts a string that must be a UUID.
func (c *changeset) uuid(field string) string {
	s := c.str(field)
	if s != "" && (len(s) != 36 || uuid.Validate(s) != nil) {
		c.fail(field, msgInvalid)
	}
	return s
}

// timestamp casts the field of that name, a time in microseconds as an integer
// or a decimal string.
func (c *changeset) timestamp() {
	const field = "timestamp"
	if c.absent(field) {
		return
	}
	raw := string(c.fields[field])
	if s, err := strconv.Unquote(raw); err == nil {
		raw = s
	}
	if _, err := strconv.ParseInt(raw, 10, 64); err != nil {
		c.fail(field, msgInvalid)
	}
}

// oneOf casts a string that must be one of those given.
func (c *changeset) oneOf(field string, values []string) {
	if s := c.str(field); s != "" && !slices.Contains(values, s) {
		c.fail(field, msgInvalid)
	}
}

// errorResponse is the plain shape of a refusal, {"field":["message"]}.
func errorResponse(errors map[string][]string) []byte {
	b, _ := json.Marshal(errors) // strings always encode
	return b
}

// nestedResponse is the other shape, {"errors":{"field":["message"]}}.
func nestedResponse(field, message string) []byte {
	b, _ := json.Marshal(map[string]map[string][]string{"errors": {field: {message}}})
	return b
}
