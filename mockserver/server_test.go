package mockserver_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

func TestStartAndClose(t *testing.T) {
	s, err := mockserver.Start(mocktest.Config(mockserver.Config{}))
	require.NoError(t, err)
	require.Regexp(t, `^ws://127\.0\.0\.1:\d+/worker$`, s.URL())
	require.Equal(t, strings.TrimSuffix(strings.Replace(s.URL(), "ws", "http", 1), "/worker"), s.HTTPURL())
	require.NotEmpty(t, s.Secret())

	c := dialRaw(t, websocket.Dialer{}, s.URL(), workerToken(t, s.Secret(), nil))
	require.Equal(t, "ok", c.join("worker:queue", `{}`).Status)
	require.Equal(t, 1, s.Stats().Sockets)
	var sent []string
	for _, e := range s.Transcript() {
		sent = append(sent, e.Direction.String()+" "+string(e.Data))
	}
	require.Equal(t, []string{
		`from client ["1","1","worker:queue","phx_join",{}]`,
		`to client ["1","1","worker:queue","phx_reply",{"response":{},"status":"ok"}]`,
	}, sent)

	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	_, _, err = c.conn.ReadMessage()
	require.True(t, websocket.IsCloseError(err, 1012), "%v", err)
	require.NoError(t, <-closed)
	require.NoError(t, s.Close(), "again")
	_, err = http.Get(s.HTTPURL() + "/stats")
	require.Error(t, err)
}

func TestStartWithThePortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	_, err = mockserver.Start(mockserver.Config{Addr: taken.Addr().String()})
	require.ErrorContains(t, err, "start the mock server: listen tcp "+taken.Addr().String())
}

func TestNewHasNoURL(t *testing.T) {
	m := newInMemory(t, mockserver.Config{OpaqueTokens: true, TranscriptLimit: -1})
	require.Empty(t, m.URL())
	require.Empty(t, m.HTTPURL())
	require.Empty(t, m.PublicKey())
	m.worker()
	require.Empty(t, m.Transcript())
}

func TestAServerEndsWithItsTest(t *testing.T) {
	var s *mockserver.Server
	require.True(t, t.Run("", func(t *testing.T) {
		s = mockserver.NewTest(t, mocktest.Config(mockserver.Config{Secret: "a secret"}))
		id, err := s.Enqueue(mockserver.Run{Plan: []byte(`{"jobs":[]}`)})
		require.NoError(t, err)
		record, found := s.Inspect(id)
		require.True(t, found)
		require.JSONEq(t, `{"id":"`+id+`","jobs":[]}`, string(record.Plan))
		dialRaw(t, websocket.Dialer{}, s.URL(), s.WorkerToken("w"))
	}))
	_, err := http.Get(s.HTTPURL())
	require.Error(t, err)
}
