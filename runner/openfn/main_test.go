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
var repo string

func TestMain(m *testing.M) {
	var err error
	if repo, err = os.MkdirTemp("", "phxworker-openfn-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(repo)
		os.Exit(code)
	}))
}

func newBench(t testing.TB, cfg Config) *runtest.Bench {
	t.Helper()
	runtest.Need(t, "node", "npm")
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
