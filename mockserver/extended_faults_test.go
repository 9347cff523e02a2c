package mockserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// The events of the extensions can go wrong as all others can.
func TestFaultsOfExtensionEvents(t *testing.T) {
	events := []struct{ event, topic string }{
		{"run:renew", "run:r1"}, {"run:release", "worker:queue"}, {"worker:status", "worker:queue"},
	}
	for _, e := range events {
		for _, action := range []fault.Action{fault.Crash, fault.Withhold, fault.Drop, fault.Refuse} {
			t.Run(e.event+" "+string(action), func(t *testing.T) {
				rule := fault.Rule{Event: e.event, Action: action}
				if action == fault.Refuse {
					rule.Response = []byte(`"no"`)
				} else {
					rule.When = fault.Before
				}
				inExtended(t, mockserver.Config{Faults: []fault.Rule{rule}}, []string{"r1"}, func(t *testing.T, m *inMemory) {
					c := m.queued("w", everyQueueExtension)
					r := c.begin()
					ref := c.send(e.topic, e.event, `{"id":"r1","token":"`+r.Token+`","reason":"requeue"}`)
					reply, answered := c.replied(ref)
					switch action {
					case fault.Refuse:
						require.Equal(t, `"no"`, string(reply.Payload))
					case fault.Crash:
						require.Len(t, c.pushed(e.topic, frame.Error), 1)
					case fault.Drop:
						require.Zero(t, m.Stats().Sockets)
					default:
						require.False(t, answered)
					}
					require.Len(t, m.Faults(), 1)
					require.Equal(t, mockserver.State("started"), m.record("r1").State)
					require.Zero(t, m.record("r1").Owners[0].Renewals)
					require.Nil(t, m.Workers()[0].Status)
				})
			})
		}
	}
}

// The reply to a claim that waited is lost with the connection: nobody has heard of
// the run, which is given to another when its claim is not confirmed.
func TestTheReplyToAWaitingClaimIsLost(t *testing.T) {
	rule := fault.Rule{Event: "claim", Action: fault.Drop, When: fault.After}
	inExtended(t, mockserver.Config{Faults: []fault.Rule{rule}}, nil, func(t *testing.T, m *inMemory) {
		c := m.queued("w", everyQueueExtension)
		ref := c.send("worker:queue", "claim", claimAndWait)
		pass(time.Second)
		require.Equal(t, 1, m.Stats().Sockets, "as long as it waits")
		m.enqueue(mockserver.Run{Plan: plan("r1")})
		require.Nil(t, c.got(ref))
		require.Zero(t, m.Stats().Sockets)
		other := m.queued("other", everyQueueExtension)
		pass(20*time.Second - time.Millisecond)
		other.claimNothing()
		pass(time.Millisecond)
		require.Equal(t, "r1", other.claim().ID)
	})
}
