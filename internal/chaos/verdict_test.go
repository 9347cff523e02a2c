package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
)

// verdict compares the books: the server's, the scripts, and what the workers
// say that they gave up.
func (w *world) verdict() tally {
	total := tally{causes: make(map[cause]int)}
	require.Empty(w.t, w.wrong)
	delivered := w.readTranscript()
	ended, undelivered := 0, 0
	said, counted := make(map[string]uint64), make(map[string]uint64) // events that the server does not have
	for _, s := range w.schedule.scripts {
		record, ok := w.server.Inspect(s.id)
		require.True(w.t, ok)
		j := &judge{world: w, script: s, record: record, notes: w.journal.of(s.id), heard: heard(record), delivered: delivered[s.id]}
		c := j.judge()
		if len(j.wrong) > 0 {
			w.t.Errorf("%s: %s\nis %s, %s %s: %s\nwanted %v\nheard  %v\nstruck %v\nsaid   %v", s.id, strings.Join(j.wrong, "; "),
				record.State, record.Reason, record.ErrorType, record.ErrorMessage, s.labels(), j.heard, j.struck(), j.notes)
		}
		for event, n := range j.notes.undelivered() {
			said[event] += n
		}
		total.runs++
		total.causes[c]++
		ended += j.count(saysJoined, "") + j.count(saysNoJoin, "")
		undelivered += j.count(saysNoJoin, "") + j.count(saysGivenUp, "") + j.count(saysEndNot, "")
	}
	require.Zero(w.t, w.journal.of("").count(saysStuckLoop, ""), "a claim loop was stuck")
	for _, h := range w.ended {
		stats := h.Stats()
		for _, n := range stats.Ended {
			ended -= n
		}
		undelivered -= stats.Undelivered
		for event, n := range stats.Delivery.Undelivered {
			counted[event] += n
		}
		for _, g := range stats.Groups {
			require.Equal(w.t, g.Size, g.Open, "slots that did not come back: %+v", g)
		}
	}
	require.Equal(w.t, said, counted, "events undelivered: what the logs say, and what the numbers do")
	require.Zero(w.t, ended, "runs that the workers' numbers leave out")
	require.Zero(w.t, undelivered, "runs given up that the workers' numbers leave out")
	return total
}

// judge says what became of one run.
type judge struct {
	*world

	script    *script
	record    mockserver.RunRecord
	notes     notes
	heard     []string // what the server took
	delivered bool     // the reply to its claim reached a worker that had an ear for it

	wrong []string
}

func (j *judge) fail(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

func (j *judge) count(message, event string) int { return j.notes.count(message, event) }

// strikes returns how often one of these actions struck the event of the run.
func (j *judge) strikes(event string, actions ...fault.Action) (n int) {
	for _, f := range j.record.Faults {
		if f.Event == event && slices.Contains(actions, f.Action) {
			n++
		}
	}
	return n
}

// struckBy reports whether one of these actions struck the event of the run; an empty
// event is any.
func (j *judge) struckBy(event string, actions ...fault.Action) bool {
	return slices.ContainsFunc(j.record.Faults, func(f fault.Strike) bool {
		return (event == "" || f.Event == event) && slices.Contains(actions, f.Action)
	})
}

func (j *judge) struck() []string {
	var out []string
	for _, f := range j.record.Faults {
		out = append(out, fmt.Sprintf("%s %s %s", f.Action, f.When, f.Event))
	}
	return out
}

func (j *judge) judge() cause {
	if n := j.executed[j.script.id]; n > 1 {
		j.fail("it was executed %d times", n)
	}
	j.checkRepeats()
	j.checkSaid()
	switch {
	case j.count(saysJoined, "") == 0:
		return j.neverJoined()
	case !j.record.State.Final():
		return j.neverEnded()
	}
	return j.ended()
}

// checkSaid holds what the workers say of the end to what the server has: a run is
// complete for them only if the server took its run:complete, with the same reason.
func (j *judge) checkSaid() {
	for _, n := range j.notes {
		if n.message == saysComplete && !slices.Contains(j.heard, "run:complete "+n.reason) {
			j.fail("a worker says that it is complete with the reason %q", n.reason)
		}
	}
	if slices.Contains(j.heard, "run:log told") && j.count(saysLessened, "") == 0 {
		j.fail("its log tells of something that was left out, and no worker does")
	}
}

// neverJoined is about a run that the server gave away and no worker had.
func (j *judge) neverJoined() cause {
	switch {
	case j.count(saysNoJoin, "") > 0:
		if j.record.State != "claimed" { // its end was made good from the spool, and there is nothing else of it
			j.checkOrder(ended(runner.Reason(j.record.Reason)))
			if end := j.record.Reason + " " + j.record.ErrorType; end != "exception JoinError" && (end != "cancel WorkerStopped" || !j.aborted) {
				j.fail("the wrong reason")
			}
		}
		if j.struckBy("", fault.Expire) {
			return tokenExpired
		}
		if !j.struckBy(fault.Join, fault.Refuse) && !j.aborted {
			j.fail("its join failed, and nobody refused it")
		}
		return joinRefused
	case j.count(saysHeldGone, "") > 0:
		if !j.aborted {
			j.fail("it was held and given up, and nobody was aborted")
		}
		return stopped
	case j.record.State != "claimed":
		j.fail("it was not joined, and is not claimed either")
	case j.delivered:
		j.fail("a worker had the reply to its claim, and did nothing")
	}
	return claimLost
}

// neverEnded is about a run that was joined, and whose end the server does not
// know.
func (j *judge) neverEnded() cause {
	switch {
	case j.count(saysEndNot, "") > 0:
		if !j.struckBy("run:complete", fault.Refuse) {
			j.fail("its end was refused by nobody")
		}
		return endRefused
	case j.count(saysGivenUp, "") == 0:
		j.fail("the workers say nothing of it")
	case !j.resendRefused():
		j.fail("it was given up and not spooled")
	}
	if j.struckBy("", fault.Expire) {
		return tokenExpired
	}
	j.fail("what was spooled could not be sent again")
	return joinRefused
}

// ended is about a run whose end the server knows.
func (j *judge) ended() cause {
	reason, wanted := j.record.Reason, j.script.labels()
	c := done
	switch {
	case j.record.ErrorType == "TopicLost" && j.count(saysGivenUp, "") > 0:
		return j.givenUp()
	case reason == string(j.script.reason()) && j.executed[j.script.id] == 1:
	case reason == "exception" && j.executed[j.script.id] == 0:
		wanted, c = ended("exception"), j.notFetched()
	case reason == "cancel" && j.aborted && j.record.ErrorType == "WorkerStopped":
		j.checkOrder(append(j.script.body(), ended("cancel")...))
		return stopped
	default:
		j.fail("the wrong reason")
	}
	j.checkOrder(wanted)
	if missing := j.checkMissing(wanted); missing != "" && c == done {
		c = missing
	}
	switch {
	case c != done:
		return c
	case j.count(saysGivenUp, "") > 0:
		return resentLater // what was not acknowledged is not referred to
	case j.count(saysLessened, "") == 0:
		j.checkDataclips()
	}
	return done
}

// givenUp is about a run that the server did not let back in while it was
// executed, and whose end it was told from the spool.
func (j *judge) givenUp() cause {
	j.checkOrder(append(j.script.body(), ended("exception")...))
	switch {
	case j.record.Reason != "exception":
		j.fail("the wrong reason")
	case j.struckBy("", fault.Expire):
		return tokenExpired
	case j.struckBy(fault.Join, fault.Refuse):
		return joinRefused
	}
	j.fail("its rejoin was refused by nobody")
	return joinRefused
}

func (j *judge) notFetched() cause {
	switch {
	case j.record.ErrorType == "DataClipError" && j.schedule.server.WipeDataclips:
		return inputErased
	case slices.ContainsFunc(fetches, func(fetch string) bool { return j.struckBy(fetch, fault.Refuse) }):
		return fetchRefused
	case !slices.ContainsFunc(fetches, func(fetch string) bool {
		return j.strikes(fetch, fault.Crash, fault.Withhold, fault.Delay, fault.Stall, fault.Drop) >= 3
	}):
		j.fail("it could not be fetched, and nobody refused that, nor failed again and again")
	}
	return fetchGivenUp
}

// heard are the labels of the events that the server took, in order.
func heard(record mockserver.RunRecord) []string {
	var labels []string
	for _, e := range record.Events {
		if e.Status == "ok" && !strings.HasPrefix(e.Event, "fetch:") {
			labels = append(labels, label(e.Event, e.Payload))
		}
	}
	return labels
}

func label(event string, payload json.RawMessage) string {
	const stored = "\uFFFD" // what stands for U+0000
	var p struct {
		JobID   string `json:"job_id"`
		Reason  string
		Message []string
	}
	_ = json.Unmarshal(payload, &p)
	switch event {
	case "step:start", "step:complete":
		return event + " " + p.JobID
	case "run:complete":
		return event + " " + p.Reason
	case "run:log":
		return event + " " + lineOf(strings.TrimSuffix(strings.Join(p.Message, " "), stored))
	}
	return event
}

func lineOf(text string) string {
	switch {
	case strings.HasPrefix(text, "line "):
		return text
	case strings.HasPrefix(text, "Run complete with status"):
		return "status"
	case strings.HasPrefix(text, "(this line had"):
		return "note"
	case strings.Contains(text, " was left out: "):
		return "told"
	}
	return "why"
}
