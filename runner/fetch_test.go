package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner/terms"
)

func TestWhatCannotBeFetchedEndsTheRunBeforeItStarts(t *testing.T) {
	tests := []struct {
		name    string
		run     mockserver.Run
		kind    string
		message string
	}{
		{
			name: "a credential", run: mockserver.Run{Plan: json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential_id":"nope"},{"id":"b","credential":"nope"}]}`)},
			kind: "CredentialLoadError", message: `Failed to load credential nope: [fetch:credential] {"errors":{"id":["Credential not found!"]}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				w.run(Config{Engine: Func(success)}, tt.run)
				result := w.result("r1")
				require.Equal(t, []string{"exception", tt.kind, tt.message}, []string{result.Reason, result.ErrorType, result.ErrorMessage})
				require.NotContains(t, w.names("r1"), "run:start")
			})
		})
	}
}

func TestCredentialsAndInputReachTheEngine(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		var input, first, second string
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			input, first, second = string(run.Input), string(run.Credential("a")), string(run.Credential("b"))
			return nil, nil
		})
		w.run(Config{Engine: engine}, mockserver.Run{
			Plan:        json.RawMessage(`{"id":"r1","dataclip_id":"d","jobs":[{"id":"a","credential":"c"},{"id":"b","credential":{"inline":"yes"}}]}`),
			Dataclip:    json.RawMessage(`{"data":"héllo"}`),
			Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"password":"hunter22"}`)},
		})
		require.Equal(t, []string{`{"data":"héllo"}`, `{"password":"hunter22"}`, `{"inline":"yes"}`}, []string{input, first, second})
	})
}

func TestDataclipBody(t *testing.T) {
	tests := []struct {
		name  string
		reply channel.Reply
		want  string
		err   string
	}{
		{name: "binary, as Lightning sends it", reply: channel.Reply{Response: []byte(`{"data":{}}`), Binary: true}, want: `{"data":{}}`},
		{name: "byte values, as lightning-mock sends it", reply: channel.Reply{Response: []byte(`[123,34,100,97,116,97,34,58,123,125,125]`)}, want: `{"data":{}}`},
		{name: "an array that is the dataclip", reply: channel.Reply{Response: []byte(`[1,2]`), Binary: true}, want: `[1,2]`},
		{name: "nothing", reply: channel.Reply{}, want: ``},
		{name: "null", reply: channel.Reply{Response: []byte(`null`), Binary: true}, want: `null`},
		{name: "no JSON", reply: channel.Reply{Response: []byte(`{`), Binary: true}, err: "not JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, err := dataclipBody(tt.reply)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, string(body))
		})
	}
}

// Guards against an input that is lost with its reply: a server that erases nothing
// has it still.
func TestAnInputThatIsNotErasedIsReadAgain(t *testing.T) {
	for _, rule := range []fault.Rule{
		{Action: fault.Drop, When: fault.Before}, {Action: fault.Drop, When: fault.After}, {Action: fault.Crash, When: fault.Before},
	} {
		onWire(t, func(t *testing.T, w *wire) {
			run := planOf(`,"dataclip_id":"d"`)
			run.Dataclip = json.RawMessage(`{"data":{"patient":1}}`)
			id, token := w.claim(run)
			rule.Event = "fetch:dataclip"
			w.fail(rule)
			require.NoError(t, New(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
				return run.Input, nil
			})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
			require.Equal(t, "success", w.result("r1").Reason)
			require.JSONEq(t, `{"data":{"patient":1}}`, string(w.result("r1").FinalState))
		})
	}
}

// Guards against a copy of a large credential for each of very many jobs, and against a run that is refused for what its
// jobs share.
func TestCredentialsForVeryManyJobs(t *testing.T) {
	for _, tt := range []struct {
		name            string
		jobs, different int
		message         string
	}{
		{name: "shared", jobs: 200, different: 1},
		{name: "very many copies", jobs: 700, different: 1, message: "The credentials of all jobs have 70001400 bytes together, over the limit of 67108864: each job is given its own copy"},
		{name: "very many", jobs: 170, different: 170, message: "The credentials of the run have 17000340 bytes together, over the limit of 16777216"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.name != "very many copies" {
				t.Skip("it takes seconds with the race detector")
			}
			onWire(t, func(t *testing.T, w *wire) {
				jobs := make([]string, tt.jobs)
				run := mockserver.Run{Queue: "manual", Credentials: make(map[string]json.RawMessage)}
				for i := range jobs {
					id := fmt.Sprint("c", i%tt.different)
					jobs[i] = fmt.Sprintf(`{"id":"j%d","credential":%q}`, i, id)
					run.Credentials[id] = json.RawMessage(`"` + strings.Repeat("s", 100_000) + `"`)
				}
				run.Plan = json.RawMessage(`{"id":"r1","jobs":[` + strings.Join(jobs, ",") + `]}`)
				w.run(Config{Engine: Func(success)}, run)
				result := w.result("r1")
				require.Equal(t, tt.message, result.ErrorMessage)
				require.Equal(t, tt.message != "", result.ErrorType == "CredentialLoadError")
				require.Len(t, w.events("r1", "fetch:credential"), tt.different)
			})
		})
	}
}

func TestWhatTheServerRefusesToShowEndsTheRun(t *testing.T) {
	tests := []struct{ event, kind, message string }{
		{event: "fetch:plan", kind: "PlanError", message: "Failed to load the plan: [fetch:plan] no"},
		{event: "fetch:dataclip", kind: "DataClipError", message: "Failed to load dataclip d: [fetch:dataclip] no"},
	}
	for _, tt := range tests {
		t.Run(tt.event, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				run := planOf(`,"dataclip_id":"d"`)
				run.Dataclip = json.RawMessage(`{}`)
				id, token := w.claim(run)
				w.fail(fault.Rule{Event: tt.event, Action: fault.Refuse, Response: json.RawMessage(`"no"`)})
				require.NoError(t, New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
				result := w.result("r1")
				require.Equal(t, []string{"exception", tt.kind, tt.message}, []string{result.Reason, result.ErrorType, result.ErrorMessage})
				require.NotContains(t, w.names("r1"), "run:start")
			})
		})
	}
}

// Guards against a plan that has the worker ask for everything at once, or compare each with each,
// and against a report that is as long as the plan.
func TestAPlanWithManyCredentialsAsksForAFewAtATime(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		var jobs []string
		for n := range 300 {
			jobs = append(jobs, fmt.Sprintf(`{"id":"j%d","credential":"c%d"}`, n, n%200))
		}
		run := planOf("")
		run.Plan = json.RawMessage(`{"id":"r1","jobs":[` + strings.Join(jobs, ",") + `]}`)
		id, token := w.claim(run)
		w.fail(fault.Rule{Event: "fetch:credential", Action: fault.Delay, Delay: time.Second, Count: -1})
		began := time.Now()
		require.NoError(t, New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		require.GreaterOrEqual(t, time.Since(began), 200/16*time.Second)
		result := w.result("r1")
		require.Equal(t, "CredentialLoadError", result.ErrorType)
		require.Equal(t, 20, strings.Count(result.ErrorMessage, "\n"))
		require.Contains(t, result.ErrorMessage, "… and 180 more")
	})
}

// Guards against an id that is taken for a format, and against words of the server that come back
// to it in full.
func TestWhatTheServerSaysIsToldInShort(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		run := planOf(`,"dataclip_id":"100%d"`)
		run.Dataclip = json.RawMessage(`{}`)
		id, token := w.claim(run)
		w.fail(fault.Rule{Event: "fetch:dataclip", Action: fault.Refuse, Response: json.RawMessage(`"` + strings.Repeat("no, ", 100_000) + `"`)})
		require.NoError(t, New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		message := w.result("r1").ErrorMessage
		require.Regexp(t, `^Failed to load dataclip 100%d: \[fetch:dataclip\] no, .*…$`, message)
		require.Less(t, len(message), 1100)
	})
}

// Guards against a large input on a slow line that is never waited for.
func TestASlowInputIsWaitedFor(t *testing.T) {
	for _, wipe := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(t, mockserver.Config{WipeDataclips: wipe})
			id, token := w.claim(fetching())
			w.fail(fault.Rule{Event: "fetch:dataclip", Action: fault.Delay, Delay: 50 * time.Second, Count: -1})
			r := New(Config{Engine: Func(twoSteps)})
			w.hasAll(r, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil))
		})
	}
}

// Guards against a connection that each fetch of one run takes down for all others.
func TestAFetchThatAlwaysDropsTheConnectionEndsTheRun(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(fetching())
		w.fail(fault.Rule{Event: "fetch:dataclip", Action: fault.Drop, Count: -1})
		begin := time.Now()
		outcome := New(Config{Engine: Func(twoSteps)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.NoError(t, outcome.Err)
		require.Equal(t, []string{"exception", "DataClipError"}, []string{w.result("r1").Reason, w.result("r1").ErrorType})
		require.GreaterOrEqual(t, len(w.server.Faults()), 12)
		require.GreaterOrEqual(t, time.Since(begin), 30*time.Second, "twelve losses can be seconds")
		require.Less(t, time.Since(begin), 5*time.Minute)
	})
}

// Guards against a slot that is held for as long as a token lives by something that can
// never be fetched.
func TestAFetchThatAlwaysFailsEndsTheRun(t *testing.T) {
	for _, event := range []string{"fetch:plan", "fetch:dataclip", "fetch:credential"} {
		for _, rule := range []fault.Rule{{Action: fault.Crash, When: fault.Before}, {Action: fault.Crash, When: fault.After}, {Action: fault.Withhold}} {
			t.Run(fmt.Sprint(event, " ", rule.Action, " ", rule.When), func(t *testing.T) {
				onWire(t, func(t *testing.T, w *wire) {
					id, token := w.claim(mockserver.Run{
						Plan:        json.RawMessage(`{"id":"r1","dataclip_id":"d","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
						Dataclip:    json.RawMessage(`{}`),
						Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{}`)},
					})
					rule.Event, rule.Count = event, -1
					w.fail(rule)
					begin := time.Now()
					r := New(Config{Engine: Func(twoSteps)})
					outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
					require.NoError(t, outcome.Err)
					require.Equal(t, "exception", w.result("r1").Reason)
					require.Contains(t, w.result("r1").ErrorMessage, event)
					require.Less(t, time.Since(begin), 10*time.Minute)
					require.GreaterOrEqual(t, time.Since(begin), 30*time.Second, "not given up at the first hitch")
				})
			})
		}
	}
}

// Guards against a message that can never be sent and is tried for ever.
func TestAFetchThatNoFrameHoldsEndsTheRun(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	onWire(t, func(t *testing.T, w *wire) {
		long := strings.Repeat("\u2028", 2_000_000) // twice as long once it is escaped
		outcome := w.run(Config{Engine: Func(success)}, mockserver.Run{Plan: json.RawMessage(`{"id":"r1","dataclip_id":"` + long + `","jobs":[{"id":"a"}]}`)})
		require.NoError(t, outcome.Err)
		require.Equal(t, "DataClipError", w.result("r1").ErrorType)
	})
}

// Guards against an end that is never reported because something that only the server's
// scrubber needs cannot be had.
func TestCredentialsThatCannotBeFetchedAgainHoldNothingUp(t *testing.T) {
	for _, action := range []fault.Action{fault.Crash, fault.Withhold, fault.Refuse} {
		t.Run(string(action), func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(mockserver.Run{
					Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
					Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"k":"value of c"}`)},
				})
				rule := fault.Rule{Event: "fetch:credential", Skip: 1, Action: action, Count: -1}
				if action == fault.Refuse {
					rule.Response = json.RawMessage(`"no"`)
				}
				w.fail(rule)
				w.fail(fault.Rule{Event: "step:start", Action: fault.Drop, When: fault.After})
				begin := time.Now()
				r := New(Config{Engine: Func(twoSteps)})
				outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				w.hasAll(r, outcome)
				require.Less(t, time.Since(begin), time.Minute)
			})
		})
	}
}

// Guards against a plan that is lost with its reply, and the run with it.
func TestAPlanThatIsWithheldIsReadAgain(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "fetch:plan", Action: fault.Withhold, Count: 2})
		require.NoError(t, New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		require.Equal(t, 3, w.pushes("r1", "fetch:plan"))
	})
}

// Guards against a second read of an input under an erase-all policy: it is
// empty, and the run must not go ahead on that silently.
func TestAnInputThatWasErasedByALostReadEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, mockserver.Config{WipeDataclips: true})
		run := planOf(`,"dataclip_id":"d"`)
		run.Dataclip = json.RawMessage(`{"data":{"patient":1}}`)
		id, token := w.claim(run)
		w.fail(fault.Rule{Event: "fetch:dataclip", Action: fault.Drop, When: fault.After})
		executed := false
		New(Config{Engine: Func(func(context.Context, *Run) (any, error) {
			executed = true
			return nil, nil
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.False(t, executed)
		require.Equal(t, []string{"exception", "DataClipError"}, []string{w.result("r1").Reason, w.result("r1").ErrorType})
	})
}

func TestARejoinFetchesTheCredentialsAgain(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(mockserver.Run{
			Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
			Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"k":"v"}`)},
		})
		w.fail(fault.Rule{Event: "step:start", Action: fault.Drop, When: fault.After})
		New(Config{Engine: Func(twoSteps)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.Equal(t, 2, w.pushes("r1", "fetch:credential"), "the server's scrubber forgets them with the join")
		names := w.names("r1")
		require.Equal(t, []string{"step:start", "fetch:credential", "step:start"}, names[3:6], "before anything else of the new join: %v", names)
	})
}

// mostWords is how long what the worker says of a server's mistake may be.
const mostWords = 2000

// FuzzFetched looks for dataclips that are no JSON and go to an engine all the same.
func FuzzFetched(f *testing.F) {
	for _, body := range []string{``, ` `, `null`, `{}`, `[123,125]`, `[123]`, `[256]`, `[-1,"a"]`, `[]`, `[[1]]`, `"x"`, "\"\xff\"", `{"errors":{"id":["is invalid"]}}`, "\x00"} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, binary bool) {
		clip, err := dataclipBody(channel.Reply{Response: body, Binary: binary})
		require.True(t, err == nil || clip == nil)
		require.True(t, clip == nil || json.Valid(clip))

		refused := &channel.RefusedError{Topic: "run:r1", Event: "fetch:dataclip", Response: body}
		_ = terms.NewLease(claim.Run{}).Withdrawn(refused)
	})
}

// Guards against as many large plans in memory as there are slots.
func TestLargePlansAreInMemoryInTurn(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	onWire(t, func(t *testing.T, w *wire) {
		p := newLargePlans(w, Config{})
		p.start("first", nil)
		p.start("second", nil)
		p.startWith("small", "", nil)
		require.Equal(t, []string{"first", "small"}, p.begun)
		require.Len(t, w.events("second", "fetch:plan"), 1)

		close(p.goOn)
		for range 3 {
			require.NoError(t, (<-p.ended).Err)
		}
		require.Equal(t, []string{"first", "small", "second"}, p.begun)
		require.Len(t, w.events("second", "fetch:plan"), 2, "it was not kept meanwhile")
		require.True(t, p.r.plans.TryAcquire(roomInTests), "all of it is free")
	})
}

// roomInTests is for one plan just above what is small, and not for two.
const roomInTests = 2 * smallPlan

// largePlans starts runs with large plans, of which one is in memory at a time. Their engine waits for goOn.
type largePlans struct {
	*wire

	r     *Runner
	begun []string
	goOn  chan struct{}
	ended chan Outcome
}

func newLargePlans(w *wire, cfg Config) *largePlans {
	p := &largePlans{wire: w, goOn: make(chan struct{}), ended: make(chan Outcome, 10)}
	cfg.Engine = Func(func(_ context.Context, run *Run) (any, error) {
		p.begun = append(p.begun, run.ID)
		<-p.goOn
		return nil, nil
	})
	p.r = New(cfg)
	p.r.plans.TryAcquire(maxPlan - roomInTests)
	return p
}

func (p *largePlans) start(id string, begin <-chan error) {
	p.startWith(id, `,"name":"`+strings.Repeat("n", smallPlan)+`"`, begin)
}

func (p *largePlans) startWith(id, more string, begin <-chan error) {
	run := planOf(more)
	run.Plan = []byte(strings.Replace(string(run.Plan), `"r1"`, `"`+id+`"`, 1))
	id, token := p.claim(run)
	go func() {
		p.ended <- p.r.Run(p.t.Context(), p.t.Context(), p.socket, claim.Run{ID: id, Token: token}, early{begin: begin})
	}()
	synctest.Wait()
}

// Guards against a run that waits in its slot until its token is over, and is then said to have run for too long.
func TestALargePlanWaitsForRoomOnlySoLong(t *testing.T) {
	for _, takes := range []bool{false, true} {
		onWire(t, func(t *testing.T, w *wire) {
			queue := &takesBack{}
			cfg := Config{Limits: Limits{RunTimeout: time.Hour}}
			if takes {
				cfg.Releaser = queue
			}
			p := newLargePlans(w, cfg)
			p.start("first", nil)
			began := time.Now()
			p.start("second", nil)
			second := <-p.ended
			require.Equal(t, 5*time.Minute, time.Since(began).Round(time.Second))
			why := "other large plans have left no room for this one, of 1048654 bytes, for 5m0s"
			if takes {
				require.Equal(t, []any{Postponed, why}, []any{second.Settled, second.Message})
				require.Equal(t, terms.ReleasePostpone, queue.released[0].Reason)
				require.Positive(t, queue.released[0].DelayMS)
			} else {
				require.Contains(t, w.result("second").ErrorMessage, why)
			}
			close(p.goOn)
			require.Equal(t, Success, (<-p.ended).Reason)
			require.Equal(t, []string{"first"}, p.begun)
		})
	}
}

// Guards against a run that waits for a slot and has the room that the run in the slot waits for.
func TestARunThatIsClaimedAheadTakesNoRoomForItsPlan(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		p := newLargePlans(w, Config{})
		begin := make(chan error, 1)
		p.start("ahead", begin)
		p.start("in its slot", nil)
		require.Equal(t, []string{"in its slot"}, p.begun)
		p.goOn <- struct{}{}
		require.Equal(t, "in its slot", (<-p.ended).RunID)
		begin <- nil
		p.goOn <- struct{}{}
		require.Equal(t, Success, (<-p.ended).Reason)
		require.Equal(t, []string{"in its slot", "ahead"}, p.begun)
		require.Len(t, w.events("ahead", "fetch:plan"), 2, "it was not kept meanwhile")
	})
}
