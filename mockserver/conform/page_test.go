package conform_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/conform/server"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/conform/worker"
)

var write = flag.Bool("write", false, "write the tables of the pages in docs")

func TestThePagesHaveTheCases(t *testing.T) {
	for _, test := range []struct {
		page, what string
		cases      []suite.Case
	}{
		{"../../docs/conformance.md", "what the worker does, or what happens", worker.Cases(worker.Target{})},
		{"../../docs/conformance-server.md", "what the server does", server.Cases(server.Servers{})},
	} {
		text, err := os.ReadFile(test.page)
		require.NoError(t, err)
		head, rest, found := strings.Cut(string(text), "<!-- cases -->\n")
		require.True(t, found)
		_, tail, found := strings.Cut(rest, "<!-- end -->\n")
		require.True(t, found)
		want := head + "<!-- cases -->\n" + table(test.what, test.cases) + "<!-- end -->\n" + tail
		if *write {
			require.NoError(t, os.WriteFile(test.page, []byte(want), 0o600))
			continue
		}
		require.Equal(t, want, string(text), "go test ./mockserver/conform -run TestThePages -write")
	}
}

func table(what string, cases []suite.Case) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| case | level | %s | why | source |\n|---|---|---|---|---|\n", what)
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;")
	for _, c := range cases {
		level := string(c.Level)
		if c.Slow {
			level += ", slow"
		}
		if len(c.Specs) == 1 {
			level += fmt.Sprintf(", %s only", c.Specs[0])
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.ID, level, escape.Replace(c.Title), escape.Replace(c.Why), escape.Replace(c.Source))
	}
	return b.String()
}
