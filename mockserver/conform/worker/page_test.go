package worker

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const page = "../../../docs/conformance.md"

var write = flag.Bool("write", false, "write the table of "+page)

func TestThePageHasTheCasesForWorkers(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(text), "<!-- cases -->\n")
	require.True(t, found)
	_, tail, found := strings.Cut(rest, "<!-- end -->\n")
	require.True(t, found)
	var table strings.Builder
	table.WriteString("| case | level | what the worker does, or what happens | why | source |\n|---|---|---|---|---|\n")
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;")
	for _, c := range Cases(Target{}) {
		level := string(c.Level)
		if c.Slow {
			level += ", slow"
		}
		if len(c.Specs) == 1 {
			level += fmt.Sprintf(", %s only", c.Specs[0])
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", c.ID, level, escape.Replace(c.Title), escape.Replace(c.Why), escape.Replace(c.Source))
	}
	want := head + "<!-- cases -->\n" + table.String() + "<!-- end -->\n" + tail
	if *write {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "go test ./mockserver/conform/worker -run TestThePage -write")
}
