package lightning

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// What happens within the moment that a test from outside cannot hit: between the taking
// of a run and the answer to the claim, and between the arrival of an event and its
// effect.

func newService(t *testing.T) *Service {
	t.Helper()
	s, err := New(Config{Secret: "secret", OpaqueTokens: true, Extensions: &Extensions{}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestAnEventOfWhoHasJustLostTheRunIsRefused(t *testing.T) {
	s := newService(t)
	_, err := s.Enqueue(Run{Plan: []byte(`{"id":"r1","jobs":[]}`)})
	require.NoError(t, err)
	c := &queueMember{x: s.ext, member: &member{id: "w", runs: make(map[*run]struct{})}, with: agreed{extLease: true}}
	now := time.Now()
	s.mu.Lock()
	taken := s.ext.takeLocked(c, claimRequest{demand: 1, queues: []string{"*"}}, now)
	s.mu.Unlock()
	require.Len(t, taken, 1)
	_, err = s.ext.hand(taken, now)
	require.NoError(t, err)
	mine := &runChannel{service: s, run: taken[0].run, owner: taken[0].owner, with: agreed{extLease: true}}
	require.Equal(t, "ok", mine.Handle(phoenix.Push{Event: "run:start", Payload: []byte(`{}`)}).Status())

	s.mu.Lock()
	s.ext.takeBackLocked(taken[0].run, LeaseExpired, now)
	s.mu.Unlock()
	for _, event := range []string{"fetch:plan", "run:renew", "run:complete"} {
		reply := mine.Handle(phoenix.Push{Event: event, Payload: []byte(`{"reason":"success"}`)})
		require.Equal(t, "error", reply.Status(), event)
		require.Equal(t, `{"reason":"lease_lost"}`, string(reply.Response()))
	}
	record, _ := s.Inspect("r1")
	require.Equal(t, Available, record.State)
	require.Len(t, record.Events, 4)
	require.Equal(t, 1, record.Events[3].Owner)
	require.EqualValues(t, 3, s.Stats().Extended.Stale)
}

// A run that was taken for a claim that waited, but whose worker has gone when it is to be
// answered, is available again at once.
func TestTheWorkerOfAWaitingClaimLeavesBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		conn := dial(t, s)
		for _, message := range []string{
			`["1","1","worker:queue","phx_join",{"extensions":{"longpoll":1}}]`,
			`["1","2","worker:queue","claim",{"demand":1,"worker_name":"w","wait_ms":20000}]`,
		} {
			require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(message)))
		}
		_, _, err := conn.ReadMessage() // the reply to the join
		require.NoError(t, err)
		synctest.Wait()

		added, err := parsePlan(Run{Plan: []byte(`{"id":"r1","jobs":[]}`)}, time.Minute)
		require.NoError(t, err)
		s.mu.Lock()
		added.tenure.attempt, s.runs[added.id] = 1, added
		s.available.push(added) // and the goroutine is not stirred
		require.Len(t, s.ext.waits, 1)
		w := s.ext.waits[0]
		s.ext.waits = nil
		taken := s.ext.takeLocked(w.channel, w.request, time.Now())
		s.mu.Unlock()
		require.Len(t, taken, 1)
		require.NoError(t, conn.Close())
		synctest.Wait()
		s.ext.give(answer{wait: w, taken: taken, at: time.Now()})

		record, _ := s.Inspect("r1")
		require.Equal(t, Available, record.State)
		require.Equal(t, NotJoined, record.Owners[0].End)
		require.Equal(t, 1, record.Attempt)
	})
}

// dial connects a worker to a service.
func dial(t *testing.T, s *Service) *websocket.Conn {
	t.Helper()
	endpoint, err := phoenix.NewEndpoint(phoenix.Config{App: s})
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
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": "urn:openfn:worker", "iat": 1, "worker_id": "w"}).SignedString([]byte("secret"))
	require.NoError(t, err)
	d := websocket.Dialer{NetDialContext: listener.DialContext}
	conn, resp, err := d.Dial("ws://mock/websocket?vsn=2.0.0&token="+token, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return conn
}
