package worker

import "github.com/phxworker/phxworker/mockserver/conform/suite"

// Target is the worker under test.
type Target struct {
	// Command starts it. In the arguments {url}, {secret}, {capacity} and {workloops} are filled in.
	Command []string
}

// Cases returns all cases for the worker. They can be listed without one.
func Cases(Target) []suite.Case { return nil }
