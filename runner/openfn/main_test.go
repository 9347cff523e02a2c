package openfn

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/internal/runtest"
)

// ofOneProject is the member of a plan for runs that may share a process.
const ofOneProject = `"project_id":"p"`

// repo is where the tests install adaptors, once for all of them.
var repo = os.Getenv(runtest.AdaptorsVariable)

func TestMain(m *testing.M) {
	remove := func() {}
	if repo == "" {
		var err error
		if repo, err = os.MkdirTemp("", "phxworker-openfn-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		remove = func() { _ = os.RemoveAll(repo) }
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
}

// long skips a test that takes its time in Node, for what is done there, when tests are to
// be short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("nearly all of its time goes into Node")
	}
}

func newBench(t testing.TB, cfg Config) *runtest.Bench {
	t.Helper()
	runtest.Need(t, "node")
	cfg.RepoDir = repo
	e, err := New(cfg)
	require.NoError(t, err)
	b := runtest.New(t, e)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	installed.Do(func() { // what is measured or cut short must not be the install
		require.Equal(t, "success", b.Job("fn(s => s)").Reason)
	})
	return b
}

var installed sync.Once
