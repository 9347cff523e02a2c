package extended_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

const (
	leaseLost  = `error {"reason":"lease_lost"}`
	notClaimed = `error {"reason":"not_claimed"}`
	success    = `{"reason":"success"}`
)

func TestAClaimTellsWhatWasAgreedOn(t *testing.T) {
	tests := []struct{ name, extensions, want string }{
		{name: "nothing", want: ``},
		{name: "lease", extensions: `"lease":1`, want: `,"lease_ms":60000`},
		{name: "attempt", extensions: `"attempt":1`, want: `,"attempt":1`},
		{name: "both", extensions: `"attempt":1,"lease":1`, want: `,"lease_ms":60000,"attempt":1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inExtended(t, mockserver.Config{Lease: time.Minute}, []string{"r1"}, func(t *testing.T, m *server) {
				c := m.queued("w", tt.extensions)
				got := c.answer("worker:queue", "claim", claimOne)
				require.Equal(t, `ok {"runs":[{"id":"r1","token":"…"`+tt.want+`}]}`, mocktest.WithoutTokens(got))
			})
		})
	}
}

// A lease that is not renewed ends: another worker gets the run, and nothing that the
// first one does about it counts any more. So of two workers that both execute a run, one
// frozen meanwhile, each effect happens once.
func TestALeaseThatEndsGivesTheRunToAnother(t *testing.T) {
	inExtended(t, mockserver.Config{Lease: time.Minute}, []string{"r1"}, func(t *testing.T, m *server) {
		frozen, other := m.queued("frozen", everyQueueExtension), m.queued("other", `"lease":1,"attempt":1`)
		first := frozen.begin()
		require.Equal(t, int64(60_000), *first.LeaseMS)
		require.Equal(t, 1, *first.Attempt)
		require.Equal(t, "ok", frozen.ask("run:r1", "step:start", `{"step_id":"a260782d-7cd1-44e4-ad3b-b4c24bac6fc2","job_id":"j1"}`).Status)
		other.claimNothing()

		pass(time.Minute - time.Millisecond)
		other.claimNothing()
		require.Empty(t, frozen.pushed("run:r1", frame.Close))
		pass(time.Millisecond)
		require.Len(t, frozen.pushed("run:r1", frame.Close), 1)
		require.Equal(t, mockserver.State("available"), m.record("r1").State)

		second := other.begin()
		require.NotEqual(t, first.Token, second.Token)
		require.Equal(t, 2, *second.Attempt)

		// The first comes back.
		require.Equal(t, `error {"reason":"unmatched topic"}`, frozen.answer("run:r1", "run:complete", success))
		require.Equal(t, leaseLost, frozen.joinRun(first, everyRunExtension))
		require.Equal(t, notClaimed, frozen.answer("worker:queue", "run:release", `{"id":"r1","token":"`+first.Token+`","reason":"requeue"}`))

		require.Equal(t, "ok", other.ask("run:r1", "step:start", `{"step_id":"0f342527-c67c-4de7-9770-9078b9b8cbb1","job_id":"j1"}`).Status)
		require.Equal(t, "ok", other.ask("run:r1", "run:complete", success).Status)
		require.Equal(t, `error {"state":["already in completed state"]}`, other.answer("run:r1", "run:complete", success), "as in Lightning")
		require.Equal(t, leaseLost, frozen.joinRun(first, ``), "also when the run is over")

		record := m.record("r1")
		require.Equal(t, mockserver.State("success"), record.State)
		require.Equal(t, 2, record.Attempt)
		require.Equal(t, []mockserver.End{mockserver.LeaseExpired, mockserver.Completed}, ends(record))
		require.Equal(t, []string{"frozen", "other"}, []string{record.Owners[0].Worker, record.Owners[1].Worker})
		require.Equal(t, record.Owners[0].LeaseUntil, record.Owners[0].EndedAt)
		require.Equal(t, []string{
			`phx_join {"reason":"lease_lost"}`, `run:release {"reason":"not_claimed"}`,
			`run:complete {"state":["already in completed state"]}`, `phx_join {"reason":"lease_lost"}`,
		}, refusals(record))
		for _, e := range record.Events {
			require.NotContains(t, string(e.Payload), first.Token)
			owner := 2
			if e.Event == "phx_join" || e.Event == "run:release" || e.At.Before(record.Owners[0].EndedAt) {
				owner = 1
			}
			require.Equal(t, owner, e.Owner, e.Event)
		}
		stats := m.Stats().Extended
		require.EqualValues(t, 1, stats.LeasesExpired)
		require.EqualValues(t, 1, stats.TakenBack)
		require.EqualValues(t, 3, stats.Stale)
	})
}

// What is taken from a worker that may be frozen does not go to a claim of its own that
// waits, though that came first.
func TestARunThatIsTakenGoesToAnother(t *testing.T) {
	tests := []struct {
		name       string
		extensions string
		join       bool
		after      time.Duration
	}{
		{name: "lease", extensions: `"lease":1,"longpoll":1`, join: true, after: time.Minute},
		{name: "claim_ack", extensions: `"claim_ack":1,"longpoll":1`, after: 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inExtended(t, mockserver.Config{Lease: time.Minute}, []string{"r1"}, func(t *testing.T, m *server) {
				frozen, other := m.queued("frozen", tt.extensions), m.queued("other", `"longpoll":1`)
				if r := frozen.claim(); tt.join {
					require.Contains(t, frozen.joinRun(r, everyRunExtension), "ok ")
				}
				pass(tt.after - 5*time.Second)
				first := frozen.Send("worker:queue", "claim", claimAndWait)
				require.Nil(t, frozen.got(first))
				second := other.Send("worker:queue", "claim", claimAndWait)
				pass(5 * time.Second)
				require.Equal(t, []string{}, frozen.got(first))
				require.Equal(t, []string{"r1"}, other.got(second))
			})
		})
	}
}

func TestALeaseIsRenewedFromNowOn(t *testing.T) {
	// The janitor has no say in it, even when the run's time limit is over.
	cfg := mockserver.Config{Lease: time.Minute, RunTimeout: 30 * time.Second, JanitorInterval: time.Second}
	inExtended(t, cfg, []string{"r1"}, func(t *testing.T, m *server) {
		c, other := m.queued("w", everyQueueExtension), m.queued("other", "")
		r := c.begin()
		for range 5 {
			pass(50 * time.Second)
			require.Equal(t, `ok {"lease_ms":60000}`, c.answer("run:r1", "run:renew", `{}`))
		}
		record := m.record("r1")
		require.Equal(t, 5, record.Owners[0].Renewals)
		require.Equal(t, time.Now().Add(time.Minute), record.Owners[0].LeaseUntil)
		require.Len(t, record.Events, 1, "a renewal that was granted is no event of the run")
		pass(time.Minute - time.Millisecond)
		other.claimNothing()
		pass(time.Millisecond)
		require.Equal(t, leaseLost, c.joinRun(r, everyRunExtension))
		require.Equal(t, "r1", other.claim().ID)
	})
}

// The runs of workers that do not know leases are Lightning's.
func TestWithoutALeaseARunIsLostInTime(t *testing.T) {
	cfg := mockserver.Config{Lease: time.Minute, RunTimeout: 5 * time.Minute, JanitorInterval: time.Second}
	inExtended(t, cfg, []string{"r1"}, func(t *testing.T, m *server) {
		m.queued("w", `"attempt":1`).begin()
		pass(5*time.Minute + 12*time.Second)
		record := m.record("r1")
		require.Equal(t, mockserver.State("lost"), record.State)
		require.Equal(t, []mockserver.End{mockserver.OwnerLost}, ends(record))
		require.Equal(t, 1, record.Attempt)
	})
}

// After the end of a run, nothing is left of its lease.
func TestTheLeaseEndsWithTheRun(t *testing.T) {
	inExtended(t, mockserver.Config{Lease: time.Minute}, []string{"r1"}, func(t *testing.T, m *server) {
		c := m.queued("w", everyQueueExtension)
		c.begin()
		require.Equal(t, "ok", c.ask("run:r1", "run:complete", success).Status)
		require.Equal(t, leaseLost, c.answer("run:r1", "run:renew", `{}`))
		pass(time.Hour)
		require.Empty(t, c.pushed("run:r1", frame.Close))
		require.Zero(t, m.Stats().Extended.LeasesExpired)
		require.Equal(t, mockserver.State("success"), m.record("r1").State)
	})
}

func TestAClaimThatIsNotJoinedIsGivenToAnother(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"r1", "r2", "r3"}, func(t *testing.T, m *server) {
		c, plain, other := m.queued("w", `"claim_ack":1,"attempt":1`), m.queued("plain", `"attempt":1`), m.queued("other", `"attempt":1`)
		lost, joined := c.claim(), c.claim()
		require.Equal(t, "r3", plain.claim().ID)
		pass(20*time.Second - time.Millisecond)
		require.Equal(t, "ok {}", c.joinRun(joined, ""))
		other.claimNothing()
		pass(time.Millisecond)
		again := other.claim()
		require.Equal(t, lost.ID, again.ID)
		require.Equal(t, 1, *again.Attempt, "it was no attempt")
		require.Equal(t, leaseLost, c.joinRun(lost, ""))
		pass(time.Minute)
		other.claimNothing()
		require.Equal(t, []mockserver.End{mockserver.NotJoined, ""}, ends(m.record(lost.ID)))
		require.EqualValues(t, 1, m.Stats().Extended.AcksMissed)
	})
}

// A token of a run that is given again in the same second is another one, though all
// its times are the same.
func TestTokensOfOneRunDiffer(t *testing.T) {
	m := newServer(t, mockserver.Config{Mode: mockserver.Extended})
	m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
	c := m.Connect()
	require.Equal(t, "ok", c.Join("worker:queue", `{"extensions":{"release":1}}`).Status)
	seen := make(map[string]bool)
	for range 5 {
		r := c.Claim(`{"demand":1,"worker_name":null}`)[0]
		require.False(t, seen[r.Token])
		seen[r.Token] = true
		c.OK("worker:queue", "run:release", `{"id":"r1","token":"`+r.Token+`","reason":"drain"}`)
	}
}

// Guards against a run that is taken from a worker which could not renew its lease: one
// that has switched leases off, or that came back as another version.
func TestWhoCannotRenewALeaseKeepsItsRun(t *testing.T) {
	inExtended(t, mockserver.Config{Lease: time.Minute}, []string{"r1"}, func(t *testing.T, m *server) {
		c := m.queued("w", `"lease":1`)
		run := c.begin()
		require.Equal(t, "ok {}", c.joinRun(run, ``))
		pass(2 * time.Minute)
		require.Equal(t, mockserver.State("started"), m.record("r1").State)
		require.Contains(t, c.joinRun(run, `"lease":1`), "ok ")
		require.Equal(t, `ok {"lease_ms":60000}`, c.answer(run.topic(), "run:renew", `{}`))
		pass(time.Minute)
		require.Equal(t, mockserver.State("available"), m.record("r1").State, "it has a lease again")
	})
}

func TestAReleasedRunIsAvailableAgain(t *testing.T) {
	tests := []struct {
		reason  string
		delay   string
		attempt int
		after   time.Duration
	}{
		{reason: "requeue", attempt: 2},
		{reason: "requeue", delay: `,"delay_ms":3000`, attempt: 2, after: 3 * time.Second},
		{reason: "postpone", delay: `,"delay_ms":60000`, attempt: 1, after: time.Minute},
		{reason: "drain", attempt: 1},
		{reason: "prefetch", delay: `,"delay_ms":0`, attempt: 1},
	}
	for _, tt := range tests {
		t.Run(tt.reason+tt.delay, func(t *testing.T) {
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
				m.Queue(mockserver.Run{Plan: mocktest.Plan("r2"), Queue: "elsewhere"})
				c, other := m.queued("w", everyQueueExtension), m.queued("other", everyQueueExtension)
				r := c.begin()
				require.Equal(t, "r1", r.ID)
				require.Equal(t, `ok {}`, c.answer("worker:queue", "run:release", `{"id":"r1","token":"`+r.Token+`","reason":"`+tt.reason+`"`+tt.delay+`}`))
				require.Len(t, c.pushed("run:r1", frame.Close), 1)
				record := m.record("r1")
				require.Equal(t, mockserver.State("available"), record.State)
				require.Zero(t, record.StartedAt)
				require.Equal(t, tt.attempt, record.Attempt)
				require.Equal(t, tt.reason, record.Owners[0].ReleaseReason)
				require.Equal(t, tt.after.Milliseconds(), record.Owners[0].ReleaseDelayMS)
				if tt.after > 0 {
					require.Equal(t, time.Now().Add(tt.after), record.NotBefore)
					pass(tt.after - time.Millisecond)
					require.Equal(t, 1, m.Stats().Extended.Delayed)
					require.Empty(t, runs(t, other.ask("worker:queue", "claim", `{"demand":1,"worker_name":null,"queues":["default"]}`)))
					pass(time.Millisecond)
				}
				require.Zero(t, m.record("r1").NotBefore)
				again := other.claim()
				require.Equal(t, "r1", again.ID, "at the place that it had")
				require.Equal(t, tt.attempt, *again.Attempt)
				require.Equal(t, leaseLost, c.joinRun(r, everyRunExtension))
				require.EqualValues(t, 1, m.Stats().Extended.Released)
				require.Zero(t, m.Stats().Extended.Delayed)
			})
		})
	}
}

// Workers that do not wait are told of a run that is available again, as of a new one.
func TestWorkAvailableAfterARelease(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
		pass(time.Second) // the wake-up of its creation
		c, plain := m.queued("w", everyQueueExtension), m.queued("plain", "")
		r := c.begin()
		require.Empty(t, plain.pushed("worker:queue", "work-available"))
		c.ask("worker:queue", "run:release", `{"id":"r1","token":"`+r.Token+`","reason":"requeue","delay_ms":3000}`)
		pass(3 * time.Second)
		require.Empty(t, plain.pushed("worker:queue", "work-available"), "not before")
		pass(500 * time.Millisecond)
		require.Len(t, plain.pushed("worker:queue", "work-available"), 1)
	})
}

func TestOnlyItsOwnerCanReleaseARun(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
		c, stranger := m.queued("w", everyQueueExtension), m.queued("stranger", everyQueueExtension)
		release := func(p *peer, id, token string) string {
			return p.answer("worker:queue", "run:release", `{"id":"`+id+`","token":"`+token+`","reason":"requeue"}`)
		}
		r := c.begin()
		require.Equal(t, notClaimed, release(stranger, "r1", "guessed"))
		require.Equal(t, notClaimed, release(stranger, "r7", r.Token))
		require.Equal(t, mockserver.State("started"), m.record("r1").State)
		require.Equal(t, "ok {}", release(c, "r1", r.Token))
		require.Equal(t, notClaimed, release(c, "r1", r.Token), "once")

		r = c.begin()
		require.Equal(t, "ok", c.ask("run:r1", "run:complete", success).Status)
		require.Equal(t, notClaimed, release(c, "r1", r.Token), "it is over")
		require.Equal(t, mockserver.State("success"), m.record("r1").State)
		require.Equal(t, 2, m.record("r1").Attempt)
	})
}

func TestBadReleases(t *testing.T) {
	tests := []struct{ name, payload, want string }{
		{name: "reason missing", payload: `{"id":"r1","token":"TOKEN"}`, want: `error {"reason":["This field can't be blank."]}`},
		{name: "reason unknown", payload: `{"id":"r1","token":"TOKEN","reason":"bored"}`, want: `error {"reason":["is invalid"]}`},
		{name: "delay negative", payload: `{"id":"r1","token":"TOKEN","reason":"requeue","delay_ms":-1}`, want: `error {"delay_ms":["is invalid"]}`},
		{name: "delay no number", payload: `{"id":"r1","token":"TOKEN","reason":"requeue","delay_ms":"soon"}`, want: `error {"delay_ms":["is invalid"]}`},
		{name: "token missing", payload: `{"id":"r1","reason":"requeue"}`, want: `crash`},
		{name: "no object", payload: `[]`, want: `crash`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
				c := m.queued("w", everyQueueExtension)
				c.claim()
				got, ok := c.replied(c.Send("worker:queue", "run:release", tt.payload))
				if tt.want == "crash" {
					require.False(t, ok)
					require.Len(t, c.pushed("worker:queue", frame.Error), 1)
				} else {
					require.Equal(t, tt.want, got.Status+" "+string(got.Payload))
				}
				require.Equal(t, mockserver.State("claimed"), m.record("r1").State)
			})
		})
	}
}

// A run that its first owner has read the input of, under a policy that erases it,
// still has it for the second.
func TestTheNextOwnerGetsTheInputToo(t *testing.T) {
	inExtended(t, mockserver.Config{WipeDataclips: true}, nil, func(t *testing.T, m *server) {
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r1"), Dataclip: []byte(`{"a":1}`)})
		c := m.queued("w", everyQueueExtension)
		for range 2 {
			r := c.begin()
			require.Equal(t, `ok {"a":1}`, c.answer("run:r1", "fetch:dataclip", `{"id":"x"}`))
			require.Equal(t, `ok null`, c.answer("run:r1", "fetch:dataclip", `{"id":"x"}`), "once each")
			require.Equal(t, "ok {}", c.answer("worker:queue", "run:release", `{"id":"r1","token":"`+r.Token+`","reason":"requeue"}`))
		}
	})
}
