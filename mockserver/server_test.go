package mockserver_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

func TestMain(m *testing.M) {
	// One of the clients leaves its goroutines behind.
	var ignored []goleak.Option
	for _, name := range []string{"(*Websocket).connectionManager", "(*Websocket).connectionReader", "(*Websocket).connectionWriter", "(*Socket).heartbeat"} {
		ignored = append(ignored, goleak.IgnoreAnyFunction("github.com/nshafer/phx."+name))
	}
	goleak.VerifyTestMain(m, ignored...)
}

func TestStartAndClose(t *testing.T) {
	s, err := mockserver.Start(mocktest.Config(mockserver.Config{}))
	require.NoError(t, err)
	require.Regexp(t, `^ws://127\.0\.0\.1:\d+/worker$`, s.URL())
	require.Equal(t, strings.TrimSuffix(strings.Replace(s.URL(), "ws", "http", 1), "/worker"), s.HTTPURL())
	require.NotEmpty(t, s.Secret())

	c := mocktest.Dial(t, websocket.Dialer{}, s.URL(), mocktest.WorkerToken(t, s.Secret(), nil))
	require.Equal(t, "ok", c.Join("worker:queue", `{}`).Status)
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
	_, _, err = c.Conn.ReadMessage()
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
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, TranscriptLimit: -1})
	require.Empty(t, m.URL())
	require.Empty(t, m.HTTPURL())
	require.Empty(t, m.PublicKey())
	m.Worker()
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
		mocktest.Dial(t, websocket.Dialer{}, s.URL(), s.WorkerToken("w"))
	}))
	_, err := http.Get(s.HTTPURL())
	require.Error(t, err)
}

func TestWait(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, KeepRuns: 2})
	_, err := m.Wait(t.Context(), "nope")
	require.ErrorIs(t, err, mockserver.ErrUnknownRun)

	m.Queue(mockserver.Run{Plan: mocktest.Plan("waiting")})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("no patience"))
	_, err = m.Wait(ctx, "waiting")
	require.ErrorContains(t, err, "no patience")

	closed := make(chan error, 1)
	go func() {
		_, err := m.Wait(context.Background(), "waiting")
		closed <- err
	}()
	require.NoError(t, m.Close())
	require.NoError(t, m.Close(), "again")
	require.ErrorIs(t, <-closed, mockserver.ErrClosed)
}

// Regression: of a run that had ended, a closed server told its end or not, as
// chance would have it.
func TestWaitTellsTheEndOfARunAfterTheServerIsClosed(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
	c, id := m.Claimed(mockserver.Run{Plan: mocktest.Plan("over")})
	c.OK("run:"+id, "run:complete", `{"reason":"success"}`)
	require.NoError(t, m.Close())
	for range 50 {
		result, err := m.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "success", result.Reason)
	}
}

// The memory of a long benchmark stays flat.
func TestEndedRunsAreForgotten(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, KeepRuns: 2})
	c := m.Worker()
	for i := range 5 {
		id := fmt.Sprint("r", i)
		m.Queue(mockserver.Run{Plan: mocktest.Plan(id)})
		_, err := m.Enqueue(mockserver.Run{Plan: mocktest.Plan(id)})
		require.ErrorAs(t, err, new(*mockserver.ConflictError))
		run := c.Claim(`{"demand":1,"worker_name":null}`)[0]
		require.Equal(t, "ok", c.Join("run:"+id, `{"token":"`+run.Token+`"}`).Status)
		c.OK("run:"+id, "run:complete", `{"reason":"success"}`)
	}
	for i := range 5 {
		_, known := m.Inspect(fmt.Sprint("r", i))
		require.Equal(t, i >= 3, known)
	}
	require.EqualValues(t, 5, m.Stats().Ended["success"])
}

// A person who watches the server sees workers come and go and runs end, and
// neither tokens nor what an error says.
func TestTheLogTellsOfWorkersAndRuns(t *testing.T) {
	var log bytes.Buffer // written before the replies that the test waits for
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	m := mocktest.New(t, mockserver.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: noTime}))})
	line := func() string {
		defer log.Reset()
		return log.String()
	}

	c := m.Worker()
	require.Equal(t, "level=INFO msg=\"worker joined\" worker=mighty-worker capacity=5 queues=\"{\\\"manual>*\\\":5}\"\n", line())
	for _, complete := range []struct{ payload, want string }{
		{`{"reason":"success"}`, "reason=success queue=manual worker_name=w"},
		{`{"reason":"fail","error_type":"JobError","error_message":"patient 7"}`, "reason=fail error_type=JobError queue=manual worker_name=w"},
	} {
		m.Queue(mockserver.Run{Plan: mocktest.Plan("run-" + complete.want[7:11]), Queue: "manual"})
		run := c.Claim(`{"demand":1,"worker_name":"w"}`)[0]
		require.Equal(t, "ok", c.Join("run:"+run.ID, `{"token":"`+run.Token+`"}`).Status)
		require.Equal(t, "error", c.Exchange("run:"+run.ID, "run:complete", `{"reason":"fine"}`).Status)
		require.Empty(t, line(), "a refused end is none")
		c.OK("run:"+run.ID, "run:complete", complete.payload)
		require.Equal(t, "level=INFO msg=\"run ended\" run_id="+run.ID+" "+complete.want+"\n", line())
		require.Equal(t, "error", c.Exchange("run:"+run.ID, "run:complete", complete.payload).Status)
		require.Empty(t, line(), "a run ends once")
	}
	c.OK("worker:queue", "phx_leave", `{}`)
	require.Equal(t, "level=INFO msg=\"worker left\" worker=mighty-worker\n", line())

	c.Join("worker:queue", `[]`)
	require.Equal(t, "level=INFO msg=\"worker joined\" worker=mighty-worker\n", line())
}
