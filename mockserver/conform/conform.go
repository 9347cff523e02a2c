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

// Worker tries the worker against each case of the options, as a subtest with the case's id. A case that
// is red fails its subtest; one that fails and is not red, such as a should without a baseline, or that
// could not be tried, skips it and says why. Subtests run side by side, as many as go test -parallel
// says; Options.Parallel, Subject and Progress have no effect.
func Worker(t *testing.T, target worker.Target, o suite.Options) {
	t.Helper()
	subtests(t, worker.Cases(target), o, true)
}

// Server tries servers against each case of the options, as [Worker] does with a worker. The subtests of
// one server that is shared run one by one.
func Server(t *testing.T, servers server.Servers, o suite.Options) {
	t.Helper()
	subtests(t, server.Cases(servers), o, !servers.Shared())
}

func subtests(t *testing.T, cases []suite.Case, o suite.Options, parallel bool) {
	t.Helper()
	selected, err := suite.Select(cases, o.Cases)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range selected {
		one := o
		one.Cases = []string{c.ID}
		t.Run(c.ID, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			report, err := suite.Run(context.WithoutCancel(t.Context()), cases, one)
			if err != nil {
				t.Fatal(err)
			}
			result := report.Results[0]
			switch {
			case report.Red(result):
				t.Errorf("%s", report.Text(result))
			case result.Verdict != suite.Passed:
				t.Skip(report.Text(result))
			}
		})
	}
}
