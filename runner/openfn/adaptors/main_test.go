package adaptors

import (
	"context"
	"errors"
	"fmt"
	web "net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/internal/npmtest"
	"github.com/phxworker/phxworker/internal/runtest"
)

// sharedDir is the repo of the tests that need the network, so that each package
// is installed once. CI has one for all packages: who changes something makes a copy.
var sharedDir = os.Getenv(runtest.AdaptorsVariable)

// The test binary is another worker when this variable has a folder: it installs a
// package there, and says what it is told.
const otherWorker = "ADAPTORS_TEST_OTHER_WORKER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(otherWorker); dir != "" {
		os.Exit(beAnotherWorker(dir))
	}
	os.Exit(runTests(m))
}

func beAnotherWorker(dir string) int {
	r, err := Open(Config{Dir: dir})
	if err == nil {
		_, err = r.Resolve(context.Background(), one, func(line string) { fmt.Println(line) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runTests(m *testing.M) int {
	if sharedDir == "" {
		var err error
		if sharedDir, err = os.MkdirTemp("", "adaptors-test-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(sharedDir)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// shared returns the repo with what comes from npm. A machine without Node or
// network skips the test; CI has both.
func shared(t testing.TB) *Repo {
	t.Helper()
	needNode(t)
	r, err := Open(Config{Dir: sharedDir})
	require.NoError(t, err)
	if _, err := r.Resolve(t.Context(), common, nil); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("this test needs npm's registry: ", err)
	}
	return r
}

// copied returns a repo of its own with a package of the shared one.
func copied(t *testing.T, specifier string) *Repo {
	t.Helper()
	r := shared(t)
	_, err := r.Resolve(t.Context(), specifier, nil)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, specifier), os.DirFS(filepath.Join(r.Dir(), specifier))))
	return open(t, Config{Dir: dir})
}

// needNode skips a test that would have nothing but Node's time to show where tests are short, or no Node.
func needNode(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("nearly all of its time goes into Node; the same code meets a pretended one in other tests")
	}
	runtest.Need(t, "node")
}

// world is what a repo without the network sees: a registry, and a node in PATH that pretends.
type world struct {
	*npmtest.Registry

	bin string // where the node is; a file called broken beside it has it load nothing
}

// fakes makes the world, in which there are two versions of language-one.
func fakes(t *testing.T) world {
	t.Helper()
	w := world{npmtest.Serve(t), t.TempDir()}
	w.Use(t)
	w.one(t, "1.0.0")
	w.one(t, "2.0.0")
	require.NoError(t, os.WriteFile(filepath.Join(w.bin, "node"), []byte(fakeNode), 0o755))
	t.Setenv("PATH", w.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return w
}

// one publishes a version of language-one, which cannot be bundled.
func (w world) one(t *testing.T, version string) {
	t.Helper()
	w.Publish(t, "@openfn/language-one", version, `{"main":"lib/index.js"}`, "package/lib/index.js", oneModule)
}

const oneModule = "export const fn = await 1\n"

// hold has the registry keep the archive of language-one until release is called, which it tells of in asked.
func (w world) hold(t *testing.T) (asked <-chan *web.Request, release func()) {
	t.Helper()
	came, free := make(chan *web.Request, 8), make(chan struct{})
	w.Instead(func(_ web.ResponseWriter, q *web.Request) bool {
		if strings.HasPrefix(q.URL.Path, "/@openfn/language-one/-/") {
			came <- q
			select {
			case <-free:
			case <-q.Context().Done():
			}
		}
		return false
	})
	release = sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	return came, release
}

// fetched are the archives that the registry gave out, in order of their names.
func (w world) fetched() (names []string) {
	for _, path := range w.Paths() {
		if name, version, ok := strings.Cut(strings.TrimSuffix(path, ".tgz"), "/-/"); ok {
			names = append(names, name[1:]+"@"+version)
		}
	}
	return names
}

// fakeNode answers the inspection: that nothing can be loaded, where there
// is a file called broken beside it.
const fakeNode = `#!/bin/sh
for last; do :; done
case $last in
--version) echo v22.22.0 ;;
*) if [ -f "${0%/*}/broken" ]; then echo '[{"error":"it is empty"}]' >&3; exit; fi
	echo '[{"exports":["fn","default"]}]' >&3 ;;
esac
`

var errNobody = errors.New("nobody waits")
