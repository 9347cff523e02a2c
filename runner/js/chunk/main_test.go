package chunk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/internal/runtest"
)

// installed is where the tests install packages, once for all of them.
var installed = os.Getenv(runtest.AdaptorsVariable)

func TestMain(m *testing.M) {
	remove := func() {}
	if installed == "" {
		var err error
		if installed, err = os.MkdirTemp("", "phxworker-chunk-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		remove = func() { _ = os.RemoveAll(installed) }
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
}

// home returns the folder of a package of npm's registry and what it needs, for Node.
func home(t testing.TB, specifier string) string {
	t.Helper()
	return runtest.Packages(t, installed, specifier)[0]
}

// chunks are those of the packages of a folder, made when they are asked for.
type chunks struct {
	*Store

	maker *Maker
}

func (c chunks) Bytecode(id string) ([]byte, error) {
	if Lacking(id) != "" {
		id = stub
	}
	if !c.Load([]string{id}) {
		if _, err := c.Make(c.maker, id); err != nil {
			return nil, err
		}
	}
	return c.Store.Bytecode(id)
}

// storeOf returns the chunks of the packages of a folder, which other tests may have made.
func storeOf(t testing.TB, home string) chunks {
	t.Helper()
	var specifiers []string
	for _, one := range StandIns {
		specifiers = append(specifiers, one.Name+"@"+one.Version)
	}
	var trees []fs.FS
	for _, dir := range runtest.Packages(t, installed, specifiers...) {
		trees = append(trees, os.DirFS(dir))
	}
	cache, err := OpenCache(filepath.Join(installed, "chunks"), 1<<30, compile)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cache.Close()) })
	return chunks{cache.Store(home, nil), New(os.DirFS(home), trees...)}
}
