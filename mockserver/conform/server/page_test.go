package server_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/conform/server"
)

const page = "../../../docs/conformance-server.md"

var write = flag.Bool("write", false, "write the table of "+page)

func TestThePageHasTheCases(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(text), "<!-- cases -->\n")
	require.True(t, found)
	_, tail, found := strings.Cut(rest, "<!-- end -->\n")
	require.True(t, found)
	var table strings.Builder
	table.WriteString("| case | level | what the server does | why | source |\n|---|---|---|---|---|\n")
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;")
	for _, c := range server.Cases(server.Servers{}) {
		level := string(c.Level)
		if c.Slow {
			level += ", slow"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", c.ID, level, escape.Replace(c.Title), escape.Replace(c.Why), escape.Replace(c.Source))
	}
	want := head + "<!-- cases -->\n" + table.String() + "<!-- end -->\n" + tail
	if *write {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
		return
	}
	if string(text) != want {
		t.Error("the table is not that of the cases: go test ./mockserver/conform/server -run TestThePage -write")
	}
}
