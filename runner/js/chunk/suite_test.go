package chunk

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// suite returns a file of tests with what it is executed with: a function as the files of testdata are.
func suite(t *testing.T, file string) string {
	t.Helper()
	bed, err := os.ReadFile("testdata/suite/bed.js")
	require.NoError(t, err)
	tests, err := os.ReadFile("testdata/suite/" + file)
	require.NoError(t, err)
	return "(async (real, lib) => {\n" + string(bed) + `
const { describe, it, expect, show, run, beforeEach, afterEach } = bed();
const server = lib.argument;
const said = []; // what came of inputs that are made up
const suite = () => {` + string(tests) + "};\nreturn suite()();\n})"
}

// Every exported name of language-common and of what it brings has a test, which passes and comes to the same in Node and
// in QuickJS; see testdata/suite.
func TestEveryNameOfCommon(t *testing.T) {
	server := newServer(t)
	var asked [2][]string
	lines := eachWith(t, suite(t, "common.js"), home(t, commonPackage), "@openfn/language-common", server.URL, func(i int) { asked[i] = server.take() })
	for _, line := range lines[0] {
		if strings.HasPrefix(line, "fails ") {
			t.Error(line)
		}
	}
	compare(t, lines)
	compare(t, asked)
	t.Log(lines[1][len(lines[1])-1])
}
