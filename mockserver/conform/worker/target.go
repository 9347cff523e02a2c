package worker

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// Target is the worker under test: a command, or a function of this process. It is started once per case.
type Target struct {
	// Command starts it. In its arguments {url}, {secret}, {capacity} and {workloops} are filled in.
	Command []string
	// Env are more variables of the command, each NAME=VALUE. They beat the kit's own. Those of this
	// process are passed on, but for the ones that begin with WORKER_.
	Env []string
	// Func is the worker when there is no Command. It must return soon after its context has ended, which
	// is what SIGTERM is for a command: runs that are under way may end first. The error stands for the
	// exit code: nil is 0.
	Func func(ctx context.Context, e Environment) error
	// Adaptor is the adaptor of all jobs, with its version. A worker that asks npm what the latest is, for each
	// run, is better told one that is installed. Defaults to @openfn/language-common@latest.
	Adaptor string

	// listen makes what the server listens on, and how a Func reaches it. Defaults to loopback. Tests
	// that are to run in fake time set it.
	listen func() (net.Listener, dialer)
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Environment is what a worker is told when it is started. A command finds it in variables.
type Environment struct {
	URL       string // WORKER_LIGHTNING_SERVICE_URL: the endpoint, without /websocket
	Secret    string // WORKER_SECRET
	PublicKey string // WORKER_LIGHTNING_PUBLIC_KEY: base64 of a PEM; empty unless the case is about it
	// Capacity is WORKER_CAPACITY: how many runs at once, from any queue. It is 0 where Workloops counts.
	Capacity int
	// Workloops is WORKER_WORKLOOPS, such as "fast_lane:1 manual>*:4".
	Workloops string
	// MinBackoff and MaxBackoff are WORKER_BACKOFF, in whole seconds: between claims that bring nothing.
	MinBackoff, MaxBackoff time.Duration
	// MessageTimeout is WORKER_MESSAGE_TIMEOUT_SECONDS, in whole seconds.
	MessageTimeout time.Duration

	// Abort is closed at the second signal. Only a Func has it.
	Abort <-chan struct{}
	// Dial reaches the server. Only a Func has it.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log takes what a command would write to stderr. Only a Func has it.
	Log io.Writer
}

// trial is a case, and how its world is set up.
type trial struct {
	suite.Case
	setup
	// do tries it, in a lab where the worker has been started, and has joined worker:queue unless the
	// setup is alone.
	do func(*lab)
}

// Cases returns all cases for the worker. They can be listed without one.
func Cases(target Target) []suite.Case {
	var cases []suite.Case
	for _, chapter := range [][]trial{connectTrials(), queueTrials(), runTrials(), deliveryTrials(), stopTrials(), extensionTrials()} {
		for _, tr := range chapter {
			c := tr.Case
			if c.Limit == 0 {
				c.Limit = defaultLimit
			}
			c.Run = func(t *suite.T) { tr.do(newLab(t, target, tr.setup)) }
			cases = append(cases, c)
		}
	}
	return cases
}

// defaultLimit has room for a worker that takes seconds to start on a busy machine.
const defaultLimit = 20 * time.Second
