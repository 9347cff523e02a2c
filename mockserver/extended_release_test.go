package mockserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
)

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
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
				m.enqueue(mockserver.Run{Plan: plan("r2"), Queue: "elsewhere"})
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
	inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
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
	inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
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
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
				c := m.queued("w", everyQueueExtension)
				c.claim()
				got, ok := c.replied(c.send("worker:queue", "run:release", tt.payload))
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
	inExtended(t, mockserver.Config{WipeDataclips: true}, nil, func(t *testing.T, m *inMemory) {
		m.enqueue(mockserver.Run{Plan: plan("r1"), Dataclip: []byte(`{"a":1}`)})
		c := m.queued("w", everyQueueExtension)
		for range 2 {
			r := c.begin()
			require.Equal(t, `ok {"a":1}`, c.answer("run:r1", "fetch:dataclip", `{"id":"x"}`))
			require.Equal(t, `ok null`, c.answer("run:r1", "fetch:dataclip", `{"id":"x"}`), "once each")
			require.Equal(t, "ok {}", c.answer("worker:queue", "run:release", `{"id":"r1","token":"`+r.Token+`","reason":"requeue"}`))
		}
	})
}
