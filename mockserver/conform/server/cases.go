package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// entry is a case, and what it does with its session.
type entry struct {
	suite.Case

	try func(*session)
}

// usualLimit lets a case be patient a few times, so that its own words say what is missing; manyLimit is for those
// that queue many runs, each by a command that may take seconds.
const (
	usualLimit = 2 * time.Minute
	manyLimit  = 5 * time.Minute
)

// Cases returns all cases for the servers. They can be listed without any.
func Cases(servers Servers) []suite.Case {
	all := slices.Concat(connectCases, frameCases, queueCases, runCases, eventCases, extensionCases, waitCases, leaseCases, steeringCases, affinityCases)
	cases := make([]suite.Case, len(all))
	for i, e := range all {
		cases[i] = e.Case
		cases[i].Limit = cmp.Or(e.Limit, usualLimit)
		cases[i].Run = func(t *suite.T) { e.try(begin(t, servers)) }
	}
	return cases
}

// Where things are laid down.
const (
	ofLightning = "Lightning: "
	ofWorker    = "ws-worker: "
	ofPhoenix   = "Phoenix Channels, serializer 2.0.0: "
	ofOurs      = "docs/extensions/"
	// ofMock is what our mock server does, in Lightning's words as far as they are known.
	ofMock = "our mock server (Lightning's own answer is not known for certain): "
)
