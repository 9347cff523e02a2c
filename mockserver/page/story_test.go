package page

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What engines write of an error: of the job's own code, and of an operation's.
func TestTheLineOfAnErrorIsMarked(t *testing.T) {
	for _, text := range []string{"no\n    at line 2, column 7", "Operation 1 failed at line 2, column 1", `Error reported by "get()" operation line 2:`} {
		st := step{Log: []line{{Text: "Starting"}, {Text: text}, {Text: "404"}}}
		st.Job.Body = "\nget('/nowhere')"
		require.Equal(t, []codeLine{{Number: 1}, {Number: 2, Text: "get('/nowhere')", Wrong: true}}, st.marked(), text)
	}
}
