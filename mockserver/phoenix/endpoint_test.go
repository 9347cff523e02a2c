package phoenix

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

func TestRefusedUpgrades(t *testing.T) {
	const upgrade = true
	tests := []struct {
		name    string
		query   string
		upgrade bool
		status  int
		body    string // a part of it; "" is an empty body
	}{
		{name: "bad token", query: "token=bad&vsn=2.0.0", upgrade: upgrade, status: 401, body: "Unauthorized"},
		{name: "no token", query: "vsn=2.0.0", upgrade: upgrade, status: 401, body: "Unauthorized"},
		{name: "bad token without upgrade", query: "token=bad&vsn=2.0.0", status: 401, body: "Unauthorized"},
		{name: "unknown serializer", query: "token=good&vsn=9.0.0", upgrade: upgrade, status: 403, body: ""},
		{name: "serializer before token", query: "token=bad&vsn=9.0.0", upgrade: upgrade, status: 403, body: ""},
		{name: "no serializer", query: "token=good", upgrade: upgrade, status: 403, body: "vsn=2.0.0"},
		{name: "no upgrade", query: "token=good&vsn=2.0.0", status: 400, body: "'connection' header must contain 'upgrade', got [\"keep-alive\"]"},
		{name: "neither parameters nor upgrade", query: "", status: 400, body: "'connection' header must contain 'upgrade', got [\"keep-alive\"]"},
	}
	endpoint, err := NewEndpoint(Config{App: &recorderApp{}})
	require.NoError(t, err)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/worker/websocket?"+tt.query, nil)
			r.Header.Set("Connection", "keep-alive")
			if tt.upgrade {
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Upgrade", "websocket")
			}
			w := httptest.NewRecorder()
			endpoint.ServeHTTP(w, r)
			require.Equal(t, tt.status, w.Code)
			require.Equal(t, "max-age=0, private, must-revalidate", w.Header().Get("Cache-Control"))
			if tt.body == "" {
				require.Empty(t, w.Body.String())
			} else {
				require.Contains(t, w.Body.String(), tt.body)
			}
		})
	}
}

func TestEndpointNeedsAnApp(t *testing.T) {
	_, err := NewEndpoint(Config{})
	require.ErrorContains(t, err, "Config.App")
}

func TestDeflate(t *testing.T) {
	s := newServer(t, Config{})
	long := strings.Repeat("a dataclip ", 1000)
	s.app.answers = map[string]Reply{"fetch:plan": OK([]byte(`"` + long + `"`))}
	c := s.dial(websocket.Dialer{EnableCompression: true})
	c.send(`["1","1","run:a","phx_join",{"token":"x"}]`)
	c.expect(`["1","1","run:a","phx_reply",{"response":{},"status":"ok"}]`)
	c.send(`["1","2","run:a","fetch:plan",{}]`)
	c.expect(`["1","2","run:a","phx_reply",{"response":"` + long + `","status":"ok"}]`)
}

func TestCloseDrains(t *testing.T) {
	t.Run("a client that answers", func(t *testing.T) {
		s := newServer(t, Config{})
		c := s.dial(websocket.Dialer{})
		c.join()
		closed := make(chan error, 1)
		go func() { closed <- s.endpoint.Close() }()
		require.Equal(t, 1012, c.closed())
		require.NoError(t, <-closed)
		require.Zero(t, s.endpoint.Sockets())
		require.Equal(t, []string{"worker:queue"}, s.app.leftTopics())

		_, resp, err := (&websocket.Dialer{NetDialContext: s.listener.DialContext}).Dial("ws://mock/?vsn=2.0.0&token=good", nil)
		require.Error(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	})
	t.Run("a client that does not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Config{})
			s.dial(websocket.Dialer{}).join()
			start := time.Now()
			require.NoError(t, s.endpoint.Close())
			require.LessOrEqual(t, time.Since(start), 2*closeTimeout)
		})
	})
}

func TestClientThatDoesNotReadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		c := s.dial(websocket.Dialer{})
		c.join()
		s.app.wake() // stands in a pipe that nobody reads
		time.Sleep(writeTimeout + time.Second)
		synctest.Wait()
		require.Zero(t, s.endpoint.Sockets())
		require.Equal(t, []string{"worker:queue"}, s.app.leftTopics())
	})
}

func TestPingWithReplyPending(t *testing.T) {
	c := newServer(t, Config{}).dial(websocket.Dialer{})
	pong := make(chan string, 1)
	c.SetPongHandler(func(payload string) error {
		pong <- payload
		return nil
	})
	require.NoError(t, c.WriteControl(websocket.PingMessage, []byte("abc"), time.Now().Add(time.Second)))
	c.join()
	require.Equal(t, "abc", <-pong)
}

func TestSendAfterTheTopicEnded(t *testing.T) {
	s := newServer(t, Config{})
	c := s.dial(websocket.Dialer{})
	c.join()
	c.send(`["1","2","worker:queue","phx_leave",{}]`)
	c.expect(`["1","2","worker:queue","phx_reply",{"response":{},"status":"ok"}]`)
	c.expect(`["1","1","worker:queue","phx_close",{}]`)
	s.app.wake()
	c.send(`[null,"3","phoenix","heartbeat",{}]`)
	c.expect(`[null,"3","phoenix","phx_reply",{"response":{},"status":"ok"}]`)
}

// A page of another origin must not be able to drive the server from a browser.
func TestForeignOriginIsRefused(t *testing.T) {
	s := newServer(t, Config{})
	d := websocket.Dialer{NetDialContext: s.listener.DialContext}
	_, resp, err := d.DialContext(context.Background(), "ws://mock/?vsn=2.0.0&token=good", http.Header{"Origin": {"http://elsewhere.example"}})
	require.Error(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
}

func TestTranscript(t *testing.T) {
	s := newServer(t, Config{Transcript: NewTranscript(3)})
	c := s.dial(websocket.Dialer{})
	c.join()
	c.send(`[null,"2","phoenix","heartbeat",{"pad":"` + strings.Repeat("x", maxRecorded) + `"}]`)
	c.expect(`[null,"2","phoenix","phx_reply",{"response":{},"status":"ok"}]`)

	got := s.endpoint.cfg.Transcript.Exchanges()
	require.Len(t, got, 3, "the oldest is overwritten")
	require.Equal(t, `["1","1","worker:queue","phx_reply",{"response":{},"status":"ok"}]`, string(got[0].Data))
	require.Equal(t, ToClient, got[0].Direction)
	require.Equal(t, FromClient, got[1].Direction)
	require.Len(t, got[1].Data, maxRecorded)
	require.Greater(t, got[1].Size, maxRecorded)
	require.Equal(t, `[null,"2","phoenix","phx_reply",{"response":{},"status":"ok"}]`, string(got[2].Data))
	require.Equal(t, 1, got[2].Socket)
	require.Equal(t, "from client, to client", fmt.Sprintf("%v, %v", got[1].Direction, got[2].Direction))

	var none *Transcript
	require.Empty(t, none.Exchanges())
}

func TestATranscriptIsFollowed(t *testing.T) {
	transcript := NewTranscript(3)
	news, count, more := transcript.Follow(0)
	require.Empty(t, news)
	require.Zero(t, count)
	for i := range 5 {
		transcript.add(1, FromClient, false, []byte{byte('a' + i)})
	}
	<-more // or the test ends by its time
	texts := func(news []Exchange) (all string) {
		for _, e := range news {
			all += string(e.Data)
		}
		return all
	}
	news, count, more = transcript.Follow(count)
	require.Equal(t, "cde", texts(news), "no more than is kept")
	require.Equal(t, 5, count)
	news, _, _ = transcript.Follow(4)
	require.Equal(t, "e", texts(news))
	select {
	case <-more:
		require.Fail(t, "nothing has come since")
	default:
	}
	_, _, never := (*Transcript)(nil).Follow(0)
	require.Nil(t, never)
}
