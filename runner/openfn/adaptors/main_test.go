package adaptors

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// sharedDir is the repo of the tests that need the network, so that each package
// is installed once.
var sharedDir string

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
	r, err := Open(Config{Dir: dir, Env: ofTheFakes})
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
	var err error
	sharedDir, err = os.MkdirTemp("", "adaptors-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(sharedDir)
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
	if testing.Short() {
		t.Skip("nearly all of its time goes into npm and Node; the same code meets pretended ones in other tests")
	}
	lacking := func(why string) {
		t.Helper()
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			lacking("this test needs " + program + " in PATH")
		}
	}
	r, err := Open(Config{Dir: sharedDir})
	require.NoError(t, err)
	if _, err := r.Resolve(t.Context(), bundlerName+"@"+bundlerVersion, nil); err != nil {
		lacking("this test needs npm's registry: " + err.Error())
	}
	return r
}

// ofTheFakes are the variables by which the fakes are told what to do.
var ofTheFakes = []string{"FAKE_*"}

// fakes puts an npm and a node into PATH that pretend. Their behaviour is set by
// the environment: see the scripts.
func fakes(t *testing.T) (log string) {
	t.Helper()
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	for name, text := range map[string]string{"npm": fakeNPM, "node": fakeNode} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("FAKE_LOG", log)
	return log
}

const fakeNPM = `#!/bin/sh
echo "$*" | sed 's/ --loglevel.* -- / /' >> "$FAKE_LOG"
env > "$FAKE_LOG.env"
for last; do :; done
case $last in esbuild@*) ;; *)
	if [ -n "$FAKE_BEGUN" ]; then echo begun > "$FAKE_BEGUN"; fi
	if [ -n "$FAKE_HELD" ]; then sleep 1000 > "$FAKE_HELD" & fi
	if [ -n "$FAKE_GATE" ]; then cat "$FAKE_GATE"; fi
	if [ -n "$FAKE_STDERR" ]; then echo "$FAKE_STDERR" >&2; exit 1; fi
	if [ -n "$FAKE_SIGNAL" ]; then kill -9 $$; fi
	if [ -n "$FAKE_UNWRITTEN" ]; then echo "npm warn tar TAR_ENTRY_ERROR $FAKE_UNWRITTEN" >&2; fi
esac
if [ "$1" = view ]; then echo "$FAKE_VERSION"; exit; fi
name=${last%@*}
mkdir -p "node_modules/$name"
case $last in esbuild@*) ;; *) if [ -n "$FAKE_LINK" ]; then ln -s "$FAKE_LINK" node_modules/link; fi ;; esac
echo "{\"name\":\"${FAKE_NAME:-$name}\",\"version\":\"${FAKE_INSTALLED:-${last##*@}}\",\"main\":\"${FAKE_MAIN:-lib/index.js}\"}" > "node_modules/$name/package.json"
mkdir -p "node_modules/$name/lib" && echo 'export const fn = 1' > "node_modules/$name/lib/index.js"
if [ -n "$FAKE_LISTED" ]; then
	mkdir -p node_modules/needed && echo "$FAKE_LISTED" > node_modules/needed/package.json
	echo '{"packages":{"node_modules/needed":{}}}' > node_modules/.package-lock.json
fi
if [ -n "$FAKE_FIRST" ]; then mkdir -p "$FAKE_FIRST" && cp -r node_modules "$FAKE_FIRST/" && touch "$FAKE_FIRST/theirs"; fi
`

// fakeNode answers the bundling and the inspection: that nothing can be loaded, where there
// is a file called broken beside it.
const fakeNode = `#!/bin/sh
for last; do :; done
case $last in
*toRoot*) echo '{"reason":"it is fake"}' >&3 ;;
*) if [ -f "${0%/*}/broken" ]; then echo '[{"error":"it is empty"}]' >&3; exit; fi
	echo '[{"exports":["fn","default"]}]' >&3 ;;
esac
`
