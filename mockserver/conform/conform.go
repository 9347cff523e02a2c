// Package conform proves that a worker, or a server for workers, does what Lightning's protocol asks of
// it. [Worker] and [Server] are for tests in Go; cmd/phxconform is for anybody else. The cases are in
// the packages worker and server, and what runs them is in package suite.
package conform

import (
	"context"
	"testing"

	"github.com/phxworker/phxworker/mockserver/conform/server"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/conform/worker"
)

// Worker tries the worker against each case of the options, side by side, and tells of each as a subtest
// with the case's id. A case that is red fails its subtest; one that fails and is not red, such as a should
// without a baseline, or that could not be tried, skips it and says why. Options.Cases says what is tried; go
// test -run only what is told of it.
func Worker(t *testing.T, target worker.Target, o suite.Options) {
	t.Helper()
	tell(t, worker.Cases(target), o)
}

// Server tries servers, and tells of each case, as [Worker] does with a worker; those of one server that is
// shared one by one, whatever Options.Parallel says.
func Server(t *testing.T, servers server.Servers, o suite.Options) {
	t.Helper()
	if servers.Shared() {
		o.Parallel = 1
	}
	tell(t, server.Cases(servers), o)
}

func tell(t *testing.T, cases []suite.Case, o suite.Options) {
	t.Helper()
	report, err := suite.Run(context.WithoutCancel(t.Context()), cases, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range report.Results {
		t.Run(result.ID, func(t *testing.T) {
			switch {
			case report.Red(result):
				t.Error(report.Text(result))
			case result.Verdict != suite.Passed:
				t.Skip(report.Text(result))
			}
		})
	}
	t.Log(report.Summary())
}
