package extended_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/lightning"
)

// What is agreed on is what both have named and what belongs to the topic.
func TestExtensionsAreAgreedOnAtTheJoin(t *testing.T) {
	const all = `{"extensions":{"attempt":{"v":1},"claim_ack":{"v":1,"timeout_ms":20000},"drain":{"v":1},` +
		`"lease":{"v":1,"duration_ms":1200000},"longpoll":{"v":1,"max_wait_ms":20000},"release":{"v":1},` +
		`"status":{"v":1,"interval_ms":15000,"timeout_ms":30000}}}`
	tests := []struct {
		name    string
		server  []string // nil: all
		payload string
		want    string
	}{
		{name: "nothing offered", payload: `{"capacity":5,"queues":{"*":5}}`, want: `{}`},
		{name: "no object", payload: `[]`, want: `{}`},
		{name: "an offer that is none", payload: `{"extensions":["lease"]}`, want: `{}`},
		{name: "all", payload: `{"extensions":{` + everyQueueExtension + `,` + everyRunExtension + `}}`, want: all},
		{name: "one", payload: `{"extensions":{"drain":1}}`, want: `{"extensions":{"drain":{"v":1}}}`},
		{name: "a later version is this one, too", payload: `{"extensions":{"drain":3}}`, want: `{"extensions":{"drain":{"v":1}}}`},
		{name: "no version", payload: `{"extensions":{"drain":0,"lease":"1","status":null}}`, want: `{}`},
		{name: "unknown", payload: `{"extensions":{"telepathy":1}}`, want: `{}`},
		{name: "of the other topic", payload: `{"extensions":{"cancel":1,"notify":1}}`, want: `{}`},
		{name: "not announced", server: []string{"lease"}, payload: `{"extensions":{"lease":1,"drain":1}}`, want: `{"extensions":{"lease":{"v":1,"duration_ms":1200000}}}`},
		{name: "none announced", server: []string{}, payload: `{"extensions":{"lease":1,"drain":1}}`, want: `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inExtended(t, mockserver.Config{Extensions: tt.server}, nil, func(t *testing.T, m *server) {
				c := m.peer("w")
				require.Equal(t, "ok "+tt.want, c.answer("worker:queue", frame.Join, tt.payload))
			})
		})
	}
	t.Run("of a run", func(t *testing.T) {
		inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
			c := m.queued("w", everyQueueExtension)
			r := c.claim()
			require.Equal(t, `ok {"extensions":{"cancel":{"v":1},"lease":{"v":1,"duration_ms":1200000},"notify":{"v":1}}}`,
				c.joinRun(r, everyRunExtension+`,"status":1`))
			require.Equal(t, `ok {"extensions":{"notify":{"v":1}}}`, c.joinRun(r, `"notify":1`), "anew at every join")
			require.Equal(t, `ok {}`, c.answer(r.topic(), frame.Join, `{"token":"`+r.Token+`"}`))
		})
	})
	t.Run("in Lightning's own mode", func(t *testing.T) {
		m := newServer(t, mockserver.Config{Mode: mockserver.Lightning})
		require.Equal(t, `{}`, string(m.Connect().Join("worker:queue", `{"extensions":{`+everyQueueExtension+`}}`).Payload))
		require.Empty(t, m.Workers()[0].Extensions)
	})
}

// An event of an extension that was not agreed on with this very join crashes the
// channel, as any unknown event does in Phoenix.
func TestEventsThatWereNotAgreedOnCrash(t *testing.T) {
	events := map[string]string{"run:release": `"release":1`, "worker:status": `"status":1`, "run:renew": `"lease":1`}
	for event, extension := range events {
		t.Run(event, func(t *testing.T) {
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
				c := m.queued("w", everyQueueExtension)
				r := c.claim()
				topic, payload := "worker:queue", `{"id":"r1","token":"`+r.Token+`","reason":"drain"}`
				if event == "run:renew" {
					topic = r.topic()
				}
				join := `{"token":"` + r.Token + `","extensions":{` + extension + `}}`
				require.Equal(t, "ok", c.ask(topic, frame.Join, join).Status)
				require.Equal(t, "ok", c.ask(topic, event, payload).Status)
			})
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
				c := m.queued("w", everyQueueExtension)
				r := c.claim()
				topic := "worker:queue"
				if event == "run:renew" {
					topic = r.topic()
				}
				require.Equal(t, "ok", c.ask(topic, frame.Join, `{"token":"`+r.Token+`"}`).Status)
				ref := c.Send(topic, event, `{"id":"r1","token":"`+r.Token+`","reason":"drain"}`)
				require.Len(t, c.pushed(topic, frame.Error), 1)
				_, answered := c.replied(ref)
				require.False(t, answered)
				require.Equal(t, mockserver.State("claimed"), m.record("r1").State)
			})
		})
	}
}

// A client that offers nothing sees in extended mode what it sees in Lightning's own, to
// the byte, and its runs are treated likewise.
func TestPlainClientsMeetNoExtension(t *testing.T) {
	session := func(mode mockserver.Mode) (frames []string, record mockserver.RunRecord) {
		m := newServer(t, mockserver.Config{Mode: mode, OpaqueTokens: true, WakeDebounce: -1})
		c, id := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1")})
		c.OK("run:"+id, "fetch:plan", `{}`)
		require.Equal(t, frame.Error, c.Exchange("run:"+id, "run:renew", `{}`).Event)
		require.Equal(t, "ok", c.Join("run:"+id, `{"token":"`+mocktest.TokenOf(m.Server)+`"}`).Status)
		c.OK("run:"+id, "run:complete", `{"reason":"success"}`)
		require.Empty(t, c.Claim(`{"demand":1,"worker_name":null,"wait_ms":10000}`), "no wait was agreed on")
		require.Equal(t, frame.Error, c.Exchange("worker:queue", "worker:status", `{}`).Event)
		for _, x := range m.Transcript() {
			frames = append(frames, x.Direction.String()+" "+mocktest.WithoutTokens(string(x.Data)))
		}
		return frames, m.record(id)
	}
	plain, _ := session(mockserver.Lightning)
	extended, record := session(mockserver.Extended)
	require.Equal(t, plain, extended)
	require.Equal(t, []mockserver.End{mockserver.Completed}, ends(record))
	require.Zero(t, record.Owners[0].LeaseUntil)
}

func TestUnknownExtensionsAndModesAreRefused(t *testing.T) {
	_, err := mockserver.New(mockserver.Config{Mode: mockserver.Extended, Extensions: []string{"telepathy"}})
	require.ErrorContains(t, err, `there is no extension "telepathy": they are lease, release, `)
	_, err = mockserver.New(mockserver.Config{Mode: "psychic"})
	require.ErrorContains(t, err, `there is no mode "psychic": it is lightning or extended`)
}

const status = `{"groups":{"manual>*":{"slots":4,"open":2,"claimed":0,"running":2}},"runs":["r1"],"draining":false}`

// A worker that has told of itself and then does not any more loses its runs, whatever
// their leases say, wherever it is.
func TestASilentWorkerLosesItsRuns(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"claimed", "started", "done"}, func(t *testing.T, m *server) {
		c, other := m.queued("silent", everyQueueExtension), m.queued("other", `"attempt":1`)
		require.Equal(t, "ok {}", c.answer("worker:queue", "worker:status", status))
		claimed := c.claim()
		require.Contains(t, c.joinRun(claimed, everyRunExtension), "ok")
		c.begin()
		c.begin()
		require.Equal(t, "ok", c.ask("run:done", "run:complete", success).Status)

		pass(30*time.Second - time.Millisecond)
		require.Equal(t, "ok {}", c.answer("worker:queue", "worker:status", status))
		waiting := c.Send("worker:queue", "claim", claimAndWait)
		pass(20 * time.Second)
		require.Equal(t, []string{}, c.got(waiting))
		require.Equal(t, mockserver.WorkerRecord{
			WorkerRecord: lightning.WorkerRecord{
				ID: "silent", Name: "w", Joins: 1, Since: m.Workers()[1].Since, Runs: []string{"claimed", "started"},
				Groups: []mockserver.GroupRecord{{Name: "manual>*", Running: 2, Claims: 4}},
			},
			Status:   []byte(status),
			StatusAt: time.Now().Add(-20 * time.Second), Extensions: []string{"attempt", "claim_ack", "drain", "lease", "longpoll", "release", "status"},
		}, m.Workers()[1])
		waiting = c.Send("worker:queue", "claim", claimAndWait)
		pass(10*time.Second - time.Millisecond)
		other.claimNothing()
		require.Nil(t, c.got(waiting))
		pass(time.Millisecond)
		require.Equal(t, []string{}, c.got(waiting), "it gets nothing meanwhile")
		for _, id := range []string{"claimed", "started"} {
			require.Len(t, c.pushed("run:"+id, frame.Close), 1)
			r := other.claim()
			require.Equal(t, id, r.ID)
			require.Equal(t, 2, *r.Attempt)
			require.Equal(t, []mockserver.End{mockserver.Silent, ""}, ends(m.record(id)))
		}
		require.Equal(t, []mockserver.End{mockserver.Completed}, ends(m.record("done")))
		require.Equal(t, leaseLost, c.joinRun(claimed, everyRunExtension))
		require.True(t, m.Workers()[1].Silent)
		require.EqualValues(t, 1, m.Stats().Extended.SilentWorkers)

		require.Equal(t, "ok {}", c.answer("worker:queue", "worker:status", status))
		require.False(t, m.Workers()[1].Silent)
	})
}

func TestWhoIsNotSilent(t *testing.T) {
	tests := []struct {
		name string
		do   func(m *server, c *peer)
	}{
		{name: "who has never told of itself", do: func(*server, *peer) {}},
		{name: "who does not any more, since it has joined without", do: func(_ *server, c *peer) {
			c.ask("worker:queue", "worker:status", status)
			c.ask("worker:queue", frame.Join, `{}`)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
				c := m.queued("w", everyQueueExtension)
				c.begin()
				tt.do(m, c)
				pass(10 * time.Minute)
				require.Equal(t, mockserver.State("started"), m.record("r1").State)
			})
		})
	}
}

// A worker that is killed says nothing any more, and its connection is gone; one that
// is back in time keeps what it has.
func TestAWorkerWhoseConnectionIsLost(t *testing.T) {
	for _, back := range []bool{true, false} {
		t.Run(fmt.Sprint("back ", back), func(t *testing.T) {
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
				c := m.queued("w", everyQueueExtension)
				c.ask("worker:queue", "worker:status", status)
				r := c.begin()
				_ = c.Conn.NetConn().Close()
				pass(29 * time.Second)
				if back {
					c = m.queued("w", everyQueueExtension)
				}
				pass(29 * time.Second)
				if back {
					require.Contains(t, c.joinRun(r, everyRunExtension), "ok ")
					require.Equal(t, "ok", c.ask("run:r1", "run:complete", success).Status)
					return
				}
				require.Equal(t, mockserver.State("available"), m.record("r1").State)
				require.Empty(t, m.Workers(), "forgotten")
			})
		})
	}
}

func TestDrain(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
		c, also, plain := m.queued("w", everyQueueExtension), m.queued("v", `"drain":1`), m.queued("plain", `"longpoll":1`)
		r := c.begin()
		waiting, other := c.Send("worker:queue", "claim", claimAndWait), plain.Send("worker:queue", "claim", claimAndWait)
		synctest.Wait()
		require.Equal(t, 2, m.DrainWorkers())
		require.Equal(t, []string{`{}`}, c.pushed("worker:queue", "worker:drain"))
		require.Equal(t, []string{`{}`}, also.pushed("worker:queue", "worker:drain"))
		require.Empty(t, plain.pushed("worker:queue", "worker:drain"))
		require.Equal(t, []string{}, c.got(waiting), "at once")
		require.Nil(t, plain.got(other))

		// Nothing more for who drains; what it has it may end.
		late := c.Send("worker:queue", "claim", claimAndWait)
		require.Equal(t, []string{}, c.got(late))
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r2")})
		require.Equal(t, []string{"r2"}, plain.got(other))
		require.Equal(t, "ok", c.ask(r.topic(), "run:complete", success).Status)

		c.ask("worker:queue", frame.Leave, `{}`)
		require.Equal(t, 1, m.DrainWorkers(), "the one that is still there")
		require.EqualValues(t, 3, m.Stats().Extended.Drains)
	})
	t.Run("in Lightning's own mode", func(t *testing.T) {
		m := newServer(t, mockserver.Config{Mode: mockserver.Lightning})
		c := m.Worker()
		require.Zero(t, m.DrainWorkers())
		c.Exchange("phoenix", "heartbeat", `{}`)
		require.Empty(t, c.Pushes)
	})
}
