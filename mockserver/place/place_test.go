package place

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const code = "fn(s => s);\n\n  get('/nowhere');\nfn(s => s.a.b);"

// What engines write of an error: of the job's own code, and of an operation's.
func TestThePlaceThatALogTells(t *testing.T) {
	for text, want := range map[string]Place{
		"no\n    at line 4, column 7":                                                                                               {4, 7},
		"Operation 1 failed at line 3, column 3":                                                                                    {3, 3},
		`Error reported by "get()" operation line 3:`:                                                                               {3, 3},
		`Error reported by "other()" operation line 3:`:                                                                             {3, 0},
		"TypeError: no\n    at vm:module(0):4:12\n    @openfn/language-common@3.3.4/index.js:7672:57":                               {4, 13},
		"TypeError: no\n    at vm:module(0):4:13\n    @openfn/language-common@3.3.4/index.js:7:5":                                   {4, 13},
		"TypeError: no\n    at helper (vm:module(0):1:3)\n    at vm:module(0):4:12\n    @openfn/language-common@3.3.4/index.js:7:5": {1, 4},
	} {
		f := Finder{Job: "a", Code: code}
		f.Read("R/T", "Starting")
		f.Read("R/T", text)
		f.Read("R/T", "404")
		at, found := f.Find(nil)
		require.True(t, found, text)
		require.Equal(t, want, at, text)
	}
}

// Guards against the place in a document, or of the log of a job, that is shown as one of the job.
func TestWhatIsNoPlace(t *testing.T) {
	for _, line := range [][2]string{
		{"R/T", "Unexpected end of the document at line 2, column 3"},
		{"R/T", "not well-formed at line 2, column 3 of the answer"},
		{"R/T", "no\n    at line 99, column 1"},
		{"R/T", "no\n    at vm:module(0):99999999999999999999:1"},
		{"R/T", `The server says: Error reported by "get()" operation line 3:`},
		{"JOB", "no\n    at line 2, column 3"},
		{"ADA", `Error reported by "get()" operation line 3:`},
	} {
		f := Finder{Job: "a", Code: code}
		f.Read(line[0], line[1])
		_, found := f.Find(nil)
		require.False(t, found, line)
	}
}

func TestThePlaceThatAnOutputTells(t *testing.T) {
	position := `{"errors":{"a":{"pos":{"line":4,"column":12,"src":"fn(s => s.a.b);"}}}}`
	asText, _ := json.Marshal(position)
	for name, test := range map[string]struct {
		output string
		want   Place
	}{
		"a position":           {position, Place{4, 13}},
		"in a text":            {string(asText), Place{4, 13}},
		"an operation":         {`{"errors":{"a":{"line":3,"operationName":"get"}}}`, Place{3, 3}},
		"of other code":        {`{"errors":{"a":{"pos":{"line":4,"column":12,"src":"other"}}}}`, Place{}},
		"of another job":       {`{"errors":{"b":{"line":3,"operationName":"get"}}}`, Place{}},
		"nothing of the kind":  {`{"errors":{"a":{"pos":"there"}}}`, Place{}},
		"an error without one": {`{"errors":{"a":{"message":"mine"}}}`, Place{}},
	} {
		f := Finder{Job: "a", Code: code}
		at, found := f.Find(json.RawMessage(test.output))
		require.Equal(t, test.want, at, name)
		require.Equal(t, test.want != Place{}, found, name)
	}
}

// Guards against a line of the globals that is shown as one of the job: OpenFn's runtime tells it in the same words.
func TestOfPlansWithGlobalsOnlyTheOperationIsKnown(t *testing.T) {
	f := Finder{Job: "a", Code: code, Globals: true}
	f.Read("R/T", "TypeError: no\n    at bad (vm:module(0):4:3)\n    at vm:module(0):2:8")
	_, found := f.Find(json.RawMessage(`{"errors":{"a":{"pos":{"line":4,"column":12,"src":"fn(s => s.a.b);"}}}}`))
	require.False(t, found)
	f.Read("R/T", `Error reported by "get()" operation line 3:`)
	at, found := f.Find(nil)
	require.True(t, found)
	require.Equal(t, Place{3, 3}, at)
}
