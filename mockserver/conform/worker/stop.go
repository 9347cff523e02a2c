package worker

import (
	"time"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// stopTrials are about SIGTERM, which is what Kubernetes sends at each deployment.
func stopTrials() []trial {
	return []trial{
		{Case: suite.Case{
			ID: "W5.1", Title: "an idle worker ends at SIGTERM, with exit code 0", Level: suite.Must,
			Why:    "It is killed half a minute later otherwise, and each deployment takes as long.",
			Source: "OpenFn/kit#934; ws-worker",
		}, do: func(l *lab) {
			l.signal()
			l.awaitExit("an idle worker to end within ten seconds of SIGTERM")
			l.endedWell()
		}},
		{Case: suite.Case{
			ID: "W5.2", Title: "runs that are under way at SIGTERM are finished", Level: suite.Must,
			Why:    "A run that is cut off by a deployment has done half of its work, and nobody does the rest.",
			Source: "OpenFn/kit#934, #910; ws-worker waits for its runs",
		}, do: func(l *lab) {
			id := l.enqueue(chain(codeWait, codeCount))
			l.awaitStart(id)
			l.signal()
			l.reason(l.awaitEnd(id), "success")
			l.awaitExit("the worker to end once its run is over")
			l.endedWell()
		}},
		{Case: suite.Case{
			ID: "W5.3", Title: "nothing is claimed after SIGTERM", Level: suite.Must,
			Why:    "A run that is claimed by a worker that is about to be killed is lost.",
			Source: "OpenFn/kit#910",
		}, setup: setup{capacity: 2}, do: func(l *lab) {
			id := l.enqueue(chain(codeWait, codeWait))
			l.awaitStart(id)
			l.signal()
			signaled := time.Now()
			stop := l.wakeAllTheTime()
			l.awaitEnd(id)
			stop()
			for _, claim := range l.sent("claim") {
				if late := claim.at.Sub(signaled); late > crossing {
					l.Fatalf("no claim after SIGTERM", "one %v later", late.Round(time.Millisecond))
				}
			}
		}},
		{Case: suite.Case{
			ID: "W5.4", Title: "a run whose claim is under way at SIGTERM is not lost", Level: suite.Must,
			Why:    "The server has given it to this worker, and gives it to nobody else.",
			Source: "OpenFn/kit#910; ws-worker waits for pending claims",
		}, setup: setup{backoff: quiet, faults: []fault.Rule{{Event: "claim", Skip: 1, Action: fault.Delay, Delay: time.Second}}}, do: func(l *lab) {
			l.awaitClaim()
			id := l.enqueue(one(codeCount))
			l.await("a claim for the run", func() bool { return l.record(id).State != "available" })
			l.signal()
			l.reason(l.awaitEnd(id), "success")
			l.awaitExit("the worker to end once its run is over")
		}},
		{Case: suite.Case{
			ID: "W5.5", Title: "a second signal ends a worker whose run goes on", Level: suite.Should,
			Why:    "Who presses Ctrl+C twice does not want to wait.",
			Source: "phxworker: docs/operate.md; what people expect of servers",
		}, do: func(l *lab) {
			id := l.enqueue(one(codeLong))
			l.awaitStart(id)
			l.signal()
			l.watch(betweenSignals)
			if l.exited() {
				l.Fatalf("the first signal to let the run go on", "%s", l.worker.exited())
			}
			l.signal()
			l.awaitExit("the worker to end within ten seconds of the second signal")
		}},
		{Case: suite.Case{
			ID: "W5.6", Title: "a run that a second signal cancels is reported", Level: suite.May,
			Why:    "It shows as running until its time limit, and then as lost, otherwise.",
			Source: "phxworker: docs/operate.md",
		}, do: func(l *lab) {
			id := l.enqueue(one(codeLong))
			l.awaitStart(id)
			l.signal()
			l.watch(betweenSignals)
			l.signal()
			l.awaitExit("the worker to end within ten seconds of the second signal")
			if l.until(stopTime, func() bool { return l.record(id).State.Final() }) != nil {
				l.Failf("run:complete", "none: the run is %s", l.record(id).State)
			}
		}},
		{Case: suite.Case{
			ID: "W5.7", Title: "a worker whose server is gone ends at SIGTERM", Level: suite.Must,
			Why:    "When a whole site is shut down, nobody waits for who waits for the server.",
			Source: "phxworker: docs/operate.md",
		}, do: func(l *lab) {
			l.awaitClaim() // W2.17 is about a claim that is under way
			l.door.shut()
			_ = l.server.Kick(fault.Abnormal) // the code is a good one
			l.watch(300 * time.Millisecond)
			l.signal()
			l.awaitExit("an idle worker to end within ten seconds of SIGTERM, server or none")
		}},
		{Case: suite.Case{
			ID: "W5.8", Title: "it says goodbye to the server when it ends", Level: suite.Should,
			Why:    "Presence shows a worker that is gone until the server's own time-out otherwise.",
			Source: "ws-worker leaves and disconnects; phoenix.js closes with 1000",
		}, do: func(l *lab) {
			l.signal()
			l.awaitExit("an idle worker to end within ten seconds of SIGTERM")
			left := func(f seen) bool { return f.sent && f.event == "phx_leave" && f.topic == queueTopic }
			if l.until(stopTime, func() bool { return len(l.where(left)) > 0 }) != nil {
				l.Failf("phx_leave on worker:queue", "%s", l.soFar())
			}
		}},
	}
}

// betweenSignals is how far apart two signals are to be two: timeout(1) and process groups send one twice.
const betweenSignals = 1500 * time.Millisecond

// endedWell fails unless the exit code was 0.
func (l *lab) endedWell() {
	if l.worker.err != nil {
		l.Failf("the exit code 0", "%v", l.worker.err)
	}
}
