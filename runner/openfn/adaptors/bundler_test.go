package adaptors

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// bundleOf bundles a package x of one file.
func bundleOf(t *testing.T, text string) (string, error) {
	t.Helper()
	b := &bundler{toRoot: "..", entries: []string{"node_modules/x/index.js"}, tree: fstest.MapFS{
		"node_modules/x/package.json": {Data: []byte(esmPackage)},
		"node_modules/x/index.js":     {Data: []byte(text)},
	}}
	return b.bundle(t.Context())
}

// A stack overflow in Go ends the worker with all its runs, and so does a memory that is full.
func TestDeepNestingEndsNobody(t *testing.T) {
	for name, shape := range map[string]struct {
		begin, open, within, end string
		tokens                   int // of open
	}{
		"brackets": {"", "[", "", "]", 1}, "calls": {"", "f(", "", ")", 2}, "operators": {"", "!", "1", "", 1}, "arrows": {"", "a=>", "1", "", 3},
		"blocks": {"", "{", "", "}", 1}, "conditions": {"", "if(a)", "b", "", 4}, "functions": {"", "()=>{", "", "}", 5}, "powers": {"", "a**", "1", "", 3},
		"templates": {"", "`${", "1", "}`", 1}, "objects": {"x=", "({a:", "1", "})", 4}, "classes": {"x=", "class{[", "1", "]}", 3}, "choices": {"", "a?b:", "c", "", 4},
	} {
		t.Run(name, func(t *testing.T) {
			text := func(levels int) string {
				return shape.begin + strings.Repeat(shape.open, levels) + shape.within + strings.Repeat(shape.end, levels)
			}
			if shape.begin != "" || !strings.Contains(shape.open, ">") { // esbuild takes long for functions
				_, _ = bundleOf(t, text(mostNested/shape.tokens-4)) // whether it is JavaScript does not matter
			}
			_, err := bundleOf(t, text(mostNested+1))
			require.EqualError(t, err, "node_modules/x/index.js nests too deeply")
		})
	}
	code, err := bundleOf(t, strings.Repeat(strings.Repeat("{", 1000)+strings.Repeat("}", 1000)+"\n", 100))
	require.NoError(t, err)
	require.Less(t, len(code), 4<<20)
}

// Guards against a worker that cannot be stopped: esbuild does not look whether it is to end within a file.
func TestABundleThatTakesLongHoldsNobodyUp(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	b := &bundler{entries: []string{"node_modules/x/index.js"}, tree: fstest.MapFS{
		"node_modules/x/index.js": {Data: []byte(strings.Repeat("a=>", 300) + "1")}, // takes it half a second or more
	}}
	ended := make(chan error)
	go func() {
		_, err := b.bundle(ctx)
		ended <- err
	}()
	cancel(errNobody)
	require.ErrorIs(t, <-ended, errNobody)
}

// Guards against another esbuild whose bundles are taken for those of the one before.
func TestTheVersionOfBundlesIsThatOfESBuild(t *testing.T) {
	raw, err := os.ReadFile("../../../go.mod")
	require.NoError(t, err)
	version, _, _ := strings.Cut(bundleVersion, "-")
	require.Contains(t, string(raw), "github.com/evanw/esbuild v"+version+"\n")
}
