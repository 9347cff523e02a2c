package conform_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/mockserver/conform"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/conform/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lame is a worker that ends at once.
func lame(_ context.Context, e worker.Environment) error {
	if e.URL == "" || e.Secret == "" {
		panic("no endpoint or no secret")
	}
	return errors.New("no legs")
}

// What is red fails the test, with what was expected; what was not tried skips it.
func TestWorkerFailsTheTestForWhatIsRed(t *testing.T) {
	if os.Getenv("PHXCONFORM_TEST_RED") != "" {
		conform.Worker(t, worker.Target{Func: lame}, suite.Options{Cases: []string{"W1.18", "W1.20"}})
		return
	}
	if testing.Short() {
		t.Skip("it starts itself")
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestWorkerFailsTheTestForWhatIsRed", "-test.v")
	cmd.Env = append(os.Environ(), "PHXCONFORM_TEST_RED=1")
	output, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "--- SKIP: TestWorkerFailsTheTestForWhatIsRed/W1.20")
	require.Contains(t, string(output), "--- FAIL: TestWorkerFailsTheTestForWhatIsRed/W1.18")
	require.Contains(t, string(output), "expected: the worker to connect once it is let in")
	require.Contains(t, string(output), "the worker has ended: no legs")
}
