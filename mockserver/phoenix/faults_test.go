package phoenix

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// ruled are faults from a set.
type ruled struct{ *fault.Set }

func (r ruled) Strike(m fault.Message) *fault.Rule {
	rule, _ := r.Ask(&m)
	return rule
}

// rules returns faults that strike as told.
func rules(tb testing.TB, all ...fault.Rule) Faults {
	tb.Helper()
	set := fault.NewSet(1)
	for _, r := range all {
		_, _, err := set.Add(r)
		require.NoError(tb, err)
	}
	return ruled{set}
}

// What a topic sends stays in order behind a late reply, whatever it is: replies,
// the server's own pushes, the end of the topic.
func TestNothingOvertakesALateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Faults: rules(t, fault.Rule{Event: "claim", Action: fault.Delay, Delay: 20 * time.Second})})
		c := s.dial(websocket.Dialer{})
		c.join()
		start := time.Now()
		c.send(`["1","2","worker:queue","claim",{"demand":1}]`)
		c.send(`["1","3","worker:queue","claim",{"demand":1}]`)
		synctest.Wait()
		s.app.wake()
		c.send(`["1","4","worker:queue","phx_leave",{}]`)
		c.send(`["5","5","run:a","phx_join",{"token":"x"}]`)
		c.expect(`["5","5","run:a","phx_reply",{"response":{},"status":"ok"}]`)
		require.Zero(t, time.Since(start))
		c.expect(`["1","2","worker:queue","phx_reply",{"response":{"runs":[]},"status":"ok"}]`)
		require.Equal(t, 20*time.Second, time.Since(start))
		c.expect(`["1","3","worker:queue","phx_reply",{"response":{"runs":[]},"status":"ok"}]`)
		c.expect(`[null,null,"worker:queue","work-available",{}]`)
		c.expect(`["1","4","worker:queue","phx_reply",{"response":{},"status":"ok"}]`)
		c.expect(`["1","1","worker:queue","phx_close",{}]`)
		require.Equal(t, 20*time.Second, time.Since(start))
	})
}

// A reply that waits for the next one to go first also waits behind what is late.
func TestReorderBehindALateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Faults: rules(
			t,
			fault.Rule{Event: "claim", Action: fault.Delay, Delay: 20 * time.Second},
			fault.Rule{Event: "claim", Action: fault.Reorder, Delay: time.Minute},
		)})
		c := s.dial(websocket.Dialer{})
		c.join()
		for _, ref := range []string{"2", "3", "4"} {
			c.send(`["1","` + ref + `","worker:queue","claim",{"demand":1}]`)
		}
		synctest.Wait()
		s.app.wake() // no reply, so not what is waited for
		for _, ref := range []string{"2", "4", "3"} {
			c.expect(`["1","` + ref + `","worker:queue","phx_reply",{"response":{"runs":[]},"status":"ok"}]`)
		}
		c.expect(`[null,null,"worker:queue","work-available",{}]`)
	})
}

// The server's own push is not the reply that a reordered one waits for.
func TestReorderIsOfReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Faults: rules(t, fault.Rule{Event: "claim", Action: fault.Reorder, Delay: 20 * time.Second})})
		c := s.dial(websocket.Dialer{})
		c.join()
		start := time.Now()
		c.send(`["1","2","worker:queue","claim",{"demand":1}]`)
		synctest.Wait()
		s.app.wake()
		c.expect(`[null,null,"worker:queue","work-available",{}]`)
		c.expect(`["1","2","worker:queue","phx_reply",{"response":{"runs":[]},"status":"ok"}]`)
		require.Equal(t, 20*time.Second, time.Since(start))
	})
}

// A channel that has crashed answers nothing any more: what was held back, to be
// overtaken or as a second copy, goes out before its end.
func TestNoReplyComesBehindACrash(t *testing.T) {
	for _, held := range []fault.Action{fault.Reorder, fault.Double} {
		t.Run(string(held), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, Config{Faults: rules(
					t,
					fault.Rule{Event: "claim", Action: held, Delay: time.Minute},
					fault.Rule{Event: "claim", Action: fault.Crash},
				)})
				c := s.dial(websocket.Dialer{})
				c.join()
				c.send(`["1","2","worker:queue","claim",{"demand":1}]`)
				if held == fault.Double {
					c.expect(`["1","2","worker:queue","phx_reply",{"response":{"runs":[]},"status":"ok"}]`)
				}
				c.send(`["1","3","worker:queue","claim",{"demand":1}]`)
				c.expect(`["1","2","worker:queue","phx_reply",{"response":{"runs":[]},"status":"ok"}]`)
				c.expect(`["1","1","worker:queue","phx_error",{}]`)
			})
		})
	}
}

// What a client's replies wait for is kept within the same bound as what it does
// not read.
func TestHeldRepliesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Faults: rules(t, fault.Rule{Event: "fetch:plan", Action: fault.Delay, Delay: time.Second, Count: -1})})
		large := make([]byte, maxPending/3)
		for i := range large {
			large[i] = '1'
		}
		s.app.answers = map[string]Reply{"fetch:plan": OK(large)}
		c := s.dial(websocket.Dialer{})
		c.send(`["1","1","run:a","phx_join",{"token":"x"}]`)
		c.expect(`["1","1","run:a","phx_reply",{"response":{},"status":"ok"}]`)
		for range 3 {
			c.send(`["1","2","run:a","fetch:plan",{}]`)
		}
		require.Equal(t, 1006, c.closed())
	})
}

// A close frame is the last message, whatever is still held.
func TestNothingFollowsTheCloseFrame(t *testing.T) {
	o := newOutbox()
	o.send(&frame.Frame{Ref: `"2"`, Topic: "run:a", Event: frame.Reply, Status: frame.OK}, delivery{manner: late})
	o.close(websocket.CloseServiceRestart)
	o.send(&frame.Frame{Ref: `"3"`, Topic: "run:a", Event: frame.Reply, Status: frame.OK}, delivery{manner: late})
	b, next, last, err := o.take(batch{})
	require.NoError(t, err)
	require.True(t, last)
	require.Zero(t, next)
	require.Len(t, b.messages, 1)
	require.Equal(t, websocket.CloseMessage, b.messages[0].kind)
}

// The price of a server that could have faults and has none, against one that
// cannot have any.
func BenchmarkPushWithFaults(b *testing.B) {
	bench := func(name string, faults Faults) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s := benchSocket(b, nil)
			s.endpoint.cfg.Faults = faults
			message := []byte(`["1","7","run:a","run:start",{"timestamp":"1795168192891559"}]`)
			for b.Loop() {
				s.buf.Reset()
				s.buf.Write(message)
				s.receive(false)
				_, _, _, _ = s.out.take(batch{})
			}
		})
	}
	bench("baseline=none possible", nil)
	bench("none", rules(b))
	bench("for others", rules(b, fault.Rule{Event: "claim", Action: fault.Drop}))
}
