package js

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// differences are the recorded runs that come to something else here, and why.
// docs/compatibility.md lists the same.
var differences = map[string]string{
	"common-cursor-format-throws": namedFunction,
	"err-in-async-function":       namedFunction,
	"err-in-function-reference":   namedFunction,
	"err-in-function-type":        namedFunction,
	"err-in-method":               namedFunction,
	"err-named-operation":         namedFunction,
	"err-stack-overflow":          namedFunction,
	"graph-diamond":               "a step where branches join names the dataclip that it was given, not that of the last branch",
	"log-class-hangs":             "a function or class that is logged arrives as null; OpenFn's engine hangs",
	"log-function-hangs":          "a function or class that is logged arrives as null; OpenFn's engine hangs",
	"log-errors":                  "every error that is logged arrives with its name and message, not only those of class Error",
	"log-bigint":                  "a BigInt arrives as its digits; OpenFn's engine replaces the whole line by a note",
	"log-console-missing":         "the console has no methods of the engine's own logger",
	"cred-leak":                   "secrets of credentials are replaced by *** in log lines",
	"state-return-number":         wrapped,
	"state-return-string":         wrapped,
	"js-bigint-literal":           laterSyntax,
	"js-class-field-instance":     laterSyntax,
	"js-numeric-separator":        laterSyntax,
	"js-regex-flag-v":             laterSyntax,
}

const (
	namedFunction = "an error keeps its type wherever in the job's own code it is thrown; with OpenFn's engine a named function makes it an AdaptorError"
	wrapped       = `a final state that is no object is sent as {"value": …}; Lightning loses a run that ends with anything else`
	laterSyntax   = "syntax that OpenFn's compiler refuses is accepted"
)

// docs/compatibility.md has a row for each difference, and no other.
func TestTheDocumentedDifferences(t *testing.T) {
	page, err := os.ReadFile("../../docs/compatibility.md")
	require.NoError(t, err)
	documented := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = row[2]
	}
	require.Equal(t, differences, documented)

	files, err := filepath.Glob("testdata/runs/*.json")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("%d runs of OpenFn", len(files)))
	require.Contains(t, string(page), fmt.Sprintf("**%d come to the same**", len(files)-len(differences)))
}
