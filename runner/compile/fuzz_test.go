package compile_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/compile"
)

func FuzzCompile(f *testing.F) {
	for _, r := range recordedJobs(f) {
		f.Add(r.Body)
	}
	for _, seed := range []string{
		"(fn(x)).then(f).catch(g)\n;(log($.x, {a: $}))", "fn(`${`}`}${/}/}`)", "for await (const x of y) z(x)\nfn()",
		"export { a as default, b }", "a?.b($.c).then(x)", "((a, b) => c)(...d).catch(e).then()", "fn(\r\n$.a\u2028)//\r",
		"x = a\n/b/g.c(d)", "new.target", "import('a').then(b)", "async (\n) => {}\nfn()", "\ufefffn()", "\\u0066n(\\u{24}.x)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		module, err := compile.Compile(compile.Job{Name: "a", Body: body, Adaptors: adaptors()})
		if err != nil {
			var e *compile.Error
			require.ErrorAs(t, err, &e)
			requireOurs(t, e)
			require.NotContains(t, e.Message, "\n")
			return
		}
		require.True(t, utf8.ValidString(module.Code))
		if !strings.Contains(body, "await") {
			requireModule(t, body, module)
		}
		for _, operation := range module.Operations {
			require.Positive(t, operation.Position.Line)
		}
	})
}

func FuzzCondition(f *testing.F) {
	for _, seed := range []string{"state.data.n > 5", "1 }, function () {", "state ===", "//", "`${1}`"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		_, err := compile.Condition(expression)
		if err != nil {
			var e *compile.Error
			require.ErrorAs(t, err, &e)
			requireOurs(t, e)
		}
	})
}

// requireOurs requires that nothing panicked but the parser, which does on some code that is wrong.
func requireOurs(t *testing.T, e *compile.Error) {
	t.Helper()
	if e.Stack != nil {
		require.Contains(t, string(e.Stack), "sobek/parser.(*_parser)")
	}
}
