package chaos

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

type resent = phxworker.Resent

// stalled reports whether the server stopped reading for a while. What had been sent until then
// it reads when the worker has long sent it again on another connection, or has
// gone on: a line or a run:start can then come late.
func (j *judge) stalled() bool { return j.server.Stats().Faults[fault.Stall] > 0 }

func canBeLate(label string) bool {
	return label == "run:start" || strings.HasPrefix(label, "run:log ")
}

// isNote reports whether a line is the worker's own, about something that was left out.
func isNote(label string) bool { return label == "run:log note" || label == "run:log told" }

// checkRepeats holds the server's record to one of each event. A run:start may
// come twice, and so may a line if lines are sent at least once, but only right
// after itself.
func (j *judge) checkRepeats() {
	for i, l := range j.heard {
		before := slices.Index(j.heard, l)
		if before == i || isNote(l) {
			continue
		}
		line := strings.HasPrefix(l, "run:log ")
		switch {
		case line && j.schedule.worker.Delivery.LogsAtMostOnce:
			j.fail("%q came twice, and lines are to come once at most", l)
		case l != "run:start" && !line:
			j.fail("%q was taken twice", l)
		case j.heard[i-1] != l && !j.stalled():
			j.fail("%q came again, and not right after itself", l)
		}
	}
}

// checkOrder holds what was heard to the order of the script.
func (j *judge) checkOrder(wanted []string) {
	at := 0
	for _, l := range j.heard {
		if isNote(l) {
			continue
		}
		i := slices.Index(wanted, l)
		switch {
		case i < 0:
			j.fail("%q was not in the script", l)
		case i < at && (!canBeLate(l) || !j.stalled()):
			j.fail("%q came too late", l)
		}
		at = max(at, i)
	}
}

// manyLosses are what the worker takes for the fault of a line; see package runner.
const manyLosses = 12

// checkMissing looks for what was not heard, and for why. It returns the cause, empty
// if all was heard.
func (j *judge) checkMissing(wanted []string) cause {
	missing := make(map[string]int) // by event
	for _, l := range wanted {
		if !slices.Contains(j.heard, l) {
			event, _, _ := strings.Cut(l, " ")
			missing[event]++
		}
	}
	var c cause
	for event, n := range missing {
		refused := max(j.count(saysRefused, event), j.count(saysLessened, event))
		once := j.count(saysOnceOnly, event)
		if j.resendRefused() {
			refused = max(refused, n) // the resending names the last one only
		}
		if n > refused+once {
			j.fail("%d of %s are missing, and the workers say so of %d", n, event, refused+once)
		}
		switch {
		case refused > 0:
			c = eventRefused
			// What belongs to a step that was not taken is refused as well.
			if !j.struckBy(event, fault.Refuse) && missing["step:start"] == 0 && !j.resendRefused() && j.strikes(event, fault.Crash, fault.Withhold, fault.Drop) < manyLosses {
				j.fail("%s was refused by nobody", event)
			}
		case once > 0:
			c = lineOnce
			if !j.schedule.worker.Delivery.LogsAtMostOnce {
				j.fail("lines are to come at least once")
			}
		}
	}
	return c
}

// resendRefused reports whether some of what was spooled was refused.
func (j *judge) resendRefused() bool {
	return slices.ContainsFunc(j.resent, func(r resent) bool { return r.RunID == j.script.id && r.Err != nil })
}

// readTranscript tells of which runs a claim's reply reached its worker: the
// socket lived on for so long that the worker must have read it.
func (w *world) readTranscript() map[string]bool {
	const heartbeat = 30 * time.Second
	exchanges := w.server.Transcript()
	last := make(map[int]time.Time) // word of a worker, by socket
	for _, e := range exchanges {
		if e.Direction == phoenix.FromClient {
			last[e.Socket] = e.At
		}
	}
	delivered := make(map[string]bool)
	for _, e := range exchanges {
		f, err := frame.Decode(e.Data, e.Binary)
		if e.Direction != phoenix.ToClient || err != nil || f.Topic != "worker:queue" {
			continue
		}
		var reply struct{ Runs []struct{ ID string } }
		_ = json.Unmarshal(f.Payload, &reply)
		for _, run := range reply.Runs {
			if last[e.Socket].Sub(e.At) > heartbeat+5*time.Second {
				delivered[run.ID] = true
			}
		}
	}
	return delivered
}
