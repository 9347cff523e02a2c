package main

import (
	"flag"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
	if testing.Short() {
		t.Skip("the binary has no race detector in it, for which -short is")
	}
	binary := filepath.Join(t.TempDir(), "phxworker")
	output, err := exec.Command("go", "build", "-o", binary, "../phxworker").CombinedOutput()
	require.NoError(t, err, "%s", output)
	conform.Worker(t,
		worker.Target{
			Command: []string{binary, "start", "--engine", *engine, "--extensions", "all"},
			Env:     []string{"WORKER_HOST=127.0.0.1"},
		},
		suite.Options{Parallel: 8, Slow: *slow, Expected: []string{}}, // no failure of any level
	)
}
