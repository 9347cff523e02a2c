package extended

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What happens within the moment that a test from outside cannot hit: between the taking
// of a run and the answer to the claim, and between the arrival of an event and its
// effect.

func newService(t *testing.T) *Service {
	t.Helper()
	x, err := New(lightning.Config{Secret: "secret", OpaqueTokens: true}, Config{})
	require.NoError(t, err)
	t.Cleanup(x.Close)
	return x
}

func TestAnEventOfWhoHasJustLostTheRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newService(t)
		_, err := x.Enqueue(lightning.Run{Plan: []byte(`{"id":"r1","jobs":[]}`)})
		require.NoError(t, err)
		conn := dial(t, x)
		var token string
		answered := func(message string) (payload string) {
			require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(message)))
			_, data, err := conn.ReadMessage()
			require.NoError(t, err)
			return string(data)
		}
		answered(`["1","1","worker:queue","phx_join",{"extensions":{"lease":1}}]`)
		reply := answered(`["1","2","worker:queue","claim",{"demand":1,"worker_name":"w"}]`)
		_, token, _ = strings.Cut(reply, `"token":"`)
		token, _, _ = strings.Cut(token, `"`)
		answered(`["3","3","run:r1","phx_join",{"token":"` + token + `","extensions":{"lease":1}}]`)
		x.Lock()
		r := x.EntryLocked("r1")
		topics := slices.Collect(maps.Keys(tenureOf(r).owner.topics))
		x.Unlock()
		require.Len(t, topics, 1)
		mine := topics[0]
		require.Equal(t, "ok", mine.Handle(phoenix.Push{Event: "run:start", Payload: []byte(`{}`)}).Status())

		x.Lock()
		x.takeBackLocked(r, LeaseExpired, time.Now())
		x.Unlock()
		for _, event := range []string{"fetch:plan", "run:renew", "run:complete"} {
			reply := mine.Handle(phoenix.Push{Event: event, Payload: []byte(`{"reason":"success"}`)})
			require.Equal(t, "error", reply.Status(), event)
			require.Equal(t, `{"reason":"lease_lost"}`, string(reply.Response()))
		}
		record, _ := x.Inspect("r1")
		require.Equal(t, lightning.Available, record.State)
		require.Len(t, record.Events, 4)
		require.Equal(t, 1, record.Events[3].Owner)
		require.EqualValues(t, 3, x.Counts().Stale)
	})
}

// A run that was taken for a claim that waited, but whose worker has gone when it is to be
// answered, is available again at once.
func TestTheWorkerOfAWaitingClaimLeavesBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newService(t)
		conn := dial(t, x)
		for _, message := range []string{
			`["1","1","worker:queue","phx_join",{"extensions":{"longpoll":1}}]`,
			`["1","2","worker:queue","claim",{"demand":1,"worker_name":"w","wait_ms":20000}]`,
		} {
			require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(message)))
		}
		_, _, err := conn.ReadMessage() // the reply to the join
		require.NoError(t, err)
		synctest.Wait()

		x.Lock()
		require.Len(t, x.waits, 1)
		w := x.waits[0]
		x.waits = nil // the goroutine does not see it
		x.Unlock()
		_, err = x.Enqueue(lightning.Run{Plan: []byte(`{"id":"r1","jobs":[]}`)})
		require.NoError(t, err)
		x.Lock()
		taken := x.takeLocked(w.channel, w.request, time.Now())
		x.Unlock()
		require.Len(t, taken, 1)
		require.NoError(t, conn.Close())
		synctest.Wait()
		x.give(answer{wait: w, taken: taken, at: time.Now()})

		record, _ := x.Inspect("r1")
		require.Equal(t, lightning.Available, record.State)
		require.Equal(t, NotJoined, record.Owners[0].End)
		require.Equal(t, 1, record.Attempt)
	})
}

// dial connects a worker to a service.
func dial(t *testing.T, x *Service) *websocket.Conn {
	t.Helper()
	endpoint, err := phoenix.NewEndpoint(phoenix.Config{App: x})
	require.NoError(t, err)
	listener := wstest.NewListener()
	server := &http.Server{Handler: endpoint}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		require.NoError(t, endpoint.Close())
		require.NoError(t, server.Close())
		<-served
	})
	d := websocket.Dialer{NetDialContext: listener.DialContext}
	conn, resp, err := d.Dial("ws://mock/websocket?vsn=2.0.0&token="+lightning.WorkerToken("secret", "w"), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return conn
}
