package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver/conform"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/conform/worker"
)

var (
	slow   = flag.Bool("slow", false, "try the slow cases on our worker as well")
	engine = flag.String("engine", "js", "the engine of our worker")
)

// Our own worker, as it is shipped, passes every case. The slow ones are for `make conform`.
func TestPhxworkerConforms(t *testing.T) {
	tryOurs(t, *engine, suite.Options{Parallel: 8, Slow: *slow})
}

// What depends on the engine is tried with Node as well: it executes the same jobs in another way.
func TestTheEngineOfNodeConforms(t *testing.T) {
	tryOurs(t, "openfn", suite.Options{
		Patience: 3, // a busy machine takes seconds to start Node
		Cases:    []string{"W3.10", "W3.11", "W3.12", "W3.15", "W3.20", "W4.22", "W5.2", "W5.6", "W6.10"},
	})
}

// ofBinary is the folder of what [buildWorker] makes, until all tests are over.
var ofBinary string

// buildWorker makes the binary, once for all tests since it takes seconds, and returns where it is.
var buildWorker = sync.OnceValues(func() (binary string, err error) {
	if ofBinary, err = os.MkdirTemp("", "phxconform"); err != nil {
		return "", err
	}
	binary = filepath.Join(ofBinary, "phxworker")
	if output, err := exec.Command("go", "build", "-o", binary, "../phxworker").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, output)
	}
	return binary, nil
})

// tryOurs tries the binary that is shipped. No failure of any level is excused.
func tryOurs(t *testing.T, engine string, o suite.Options) {
	t.Helper()
	if testing.Short() {
		t.Skip("the binary has no race detector in it, for which -short is")
	}
	binary, err := buildWorker()
	require.NoError(t, err)
	target := worker.Target{Command: []string{binary, "start", "--engine", engine, "--extensions", "all"}, Env: []string{"WORKER_HOST=127.0.0.1"}}
	if engine == "openfn" { // it takes longer to install an adaptor than a case has
		runtest.Need(t, "node", "npm")
		dir := runtest.Adaptors(t)
		target.Adaptor = "@openfn/language-common@3.3.4"
		output, err := exec.Command(binary, "adaptors", "install", "--repo-dir", dir, target.Adaptor).CombinedOutput()
		require.NoError(t, err, "%s", output)
		target.Command = append(target.Command, "--repo-dir", dir)
	}
	o.Expected = []string{}
	conform.Worker(t, target, o)
}
