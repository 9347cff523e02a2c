//go:build !race

// phx has data races of its own, which the race detector would report as ours.

package channel

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/nshafer/phx"
	"github.com/stretchr/testify/require"
)

// The tests named TestPhxPeer show why this client exists, and nshafer/phx
// v0.2.5 is not used: each pins a property of it that a worker cannot live
// with. Should one of them fail after an upgrade, that reason is gone.

// A worker joins its queue with {"capacity": 5, "queues": {…}}: a number and a
// map. phx takes strings only.
func TestPhxPeerJoinsWithStringsOnly(t *testing.T) {
	socketChannel := reflect.TypeOf((*phx.Socket).Channel)
	require.Equal(t, reflect.TypeFor[map[string]string](), socketChannel.In(2))

	var params map[string]string
	require.Error(t, json.Unmarshal([]byte(`{"capacity":5,"queues":{"manual>*":5}}`), &params))
}

// phx dials with gorilla's DefaultDialer and writes its own time-out into it,
// so it changes the behaviour of everything else in the process that uses it.
func TestPhxPeerChangesTheDefaultDialer(t *testing.T) {
	before := websocket.DefaultDialer.HandshakeTimeout
	phxConnect(t, func(ws *websocket.Conn) { _, _, _ = ws.ReadMessage() }, func(socket *phx.Socket) {
		socket.ConnectTimeout = 1234 * time.Millisecond
	})
	require.Equal(t, 1234*time.Millisecond, websocket.DefaultDialer.HandshakeTimeout)
	require.NotEqual(t, before, websocket.DefaultDialer.HandshakeTimeout)
}

// The reply to fetch:dataclip is a binary frame. To phx that is an error, over
// which it drops the connection, and with it every run.
func TestPhxPeerDropsTheConnectionOverABinaryFrame(t *testing.T) {
	failed := make(chan error, 10)
	var once sync.Once
	phxConnect(t, func(ws *websocket.Conn) {
		once.Do(func() {
			_ = ws.WriteMessage(websocket.BinaryMessage, []byte("\x02\x06\x04room:1tick{}"))
		})
		_, _, _ = ws.ReadMessage()
	}, func(socket *phx.Socket) {
		socket.OnError(func(err error) { failed <- err })
	})
	select {
	case err := <-failed:
		require.ErrorContains(t, err, "unsupported websocket message type")
	case <-time.After(10 * time.Second):
		require.FailNow(t, "phx took a binary frame")
	}
}

// phx runs a goroutine for every event, so the order of events is left to the
// scheduler. Only the mechanism is asserted: callbacks of later events run
// while that of an earlier one has not returned.
func TestPhxPeerRunsEventsSideBySide(t *testing.T) {
	const events = 3
	send := make(chan struct{})
	var running sync.WaitGroup
	running.Add(events)
	together := make(chan struct{})
	phxConnect(t, func(ws *websocket.Conn) {
		<-send
		for range events {
			_ = ws.WriteMessage(websocket.TextMessage, []byte(`[null,null,"room:1","tick",{}]`))
		}
		_, _, _ = ws.ReadMessage()
	}, func(socket *phx.Socket) {
		socket.Channel("room:1", nil).On("tick", func(any) {
			running.Done()
			<-together // the first is kept waiting for the last
		})
	})
	close(send)
	all := make(chan error, 1)
	go func() { running.Wait(); all <- nil }()
	var err error
	select {
	case err = <-all:
	case <-time.After(10 * time.Second):
		err = errors.New("phx ran one event after the other")
		for range events {
			running.Done()
		}
	}
	close(together)
	require.NoError(t, err)
}

// phxConnect connects a phx socket to a server that serves each connection
// with the function given.
func phxConnect(t *testing.T, serve func(*websocket.Conn), prepare func(*phx.Socket)) {
	t.Helper()
	timeout := websocket.DefaultDialer.HandshakeTimeout
	t.Cleanup(func() { websocket.DefaultDialer.HandshakeTimeout = timeout })
	upgrader := websocket.Upgrader{}
	ended, end := context.WithCancel(context.Background())
	var served sync.WaitGroup
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		served.Add(1)
		defer served.Done()
		// phx leaves connections open that it has given up.
		stop := context.AfterFunc(ended, func() { _ = ws.Close() })
		defer stop()
		defer ws.Close()
		serve(ws)
	}))
	t.Cleanup(func() { end(); served.Wait(); srv.Close() })
	endpoint, err := url.Parse("ws" + srv.URL[len("http"):] + "/socket")
	require.NoError(t, err)
	socket := phx.NewSocket(endpoint)
	open := make(chan struct{}, 10)
	socket.OnOpen(func() { open <- struct{}{} })
	prepare(socket)
	require.NoError(t, socket.Connect())
	t.Cleanup(func() {
		// phx closes its channels twice, and panics, when it is told to disconnect
		// between two connections.
		require.Eventually(t, socket.IsConnected, 10*time.Second, time.Millisecond)
		_ = socket.Disconnect()
	})
	select {
	case <-open:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "phx did not connect")
	}
}
