package js

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
)

// Guards against a long page that is read as JSON, and whose error is said in QuickJS's words, with all of the page in it.
func TestALongTextThatIsNoJSON(t *testing.T) {
	w := runtest.New(t, New(Config{}))
	for text, want := range map[string]string{
		`'<!DOCTYPE html>' + 'x'.repeat(1e6)`:            `Unexpected token '<', "<!DOCTYPE "... is not valid JSON`,
		`'x'.repeat(1e6)`:                                `Unexpected token 'x', "xxxxxxxxxx"... is not valid JSON`,
		`'{"a":1}{"b":' + '2'.repeat(1e6)`:               `Unexpected non-whitespace character after JSON at position 7`,
		`'[' + '"abc",'.repeat(1000) + 'x' + 1e6 + ', '`: `Unexpected token 'x', ..."bc","abc",x1000000, " is not valid JSON`,
	} {
		record := w.Job(`fn(() => JSON.parse(` + text + `))`)
		require.Equal(t, "SyntaxError: "+want, record.ErrorMessage)
	}
}
