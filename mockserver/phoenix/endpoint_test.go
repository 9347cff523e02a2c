package phoenix

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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

func TestIdleSocketIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		start := time.Now()

		silent := s.dial(websocket.Dialer{})
		silent.join()
		require.Equal(t, 1000, silent.closed())
		require.Equal(t, 60*time.Second, time.Since(start))

		beating := s.dial(websocket.Dialer{})
		for range 4 {
			time.Sleep(45 * time.Second)
			beating.send(`[null,"1","phoenix","heartbeat",{}]`)
			beating.expect(`[null,"1","phoenix","phx_reply",{"response":{},"status":"ok"}]`)
		}
		start = time.Now()
		require.Equal(t, 1000, beating.closed())
		require.Equal(t, 60*time.Second, time.Since(start))

		synctest.Wait()
		require.Equal(t, []string{"worker:queue"}, s.app.leftTopics())
	})
}

// The recordings, section 16: a message over the limit ends the connection with
// no close frame, and it is the size on the wire that counts.
func TestMessageOverTheLimit(t *testing.T) {
	heartbeat := func(size int) string {
		return `[null,"1","phoenix","heartbeat",{"pad":"` + strings.Repeat("x", size) + `"}]`
	}
	const answer = `[null,"1","phoenix","phx_reply",{"response":{},"status":"ok"}]`
	t.Run("just below", func(t *testing.T) {
		c := newServer(t, Config{}).dial(websocket.Dialer{})
		c.send(heartbeat(10_900_000))
		c.expect(answer)
	})
	t.Run("above", func(t *testing.T) {
		c := newServer(t, Config{}).dial(websocket.Dialer{})
		_ = c.WriteMessage(websocket.TextMessage, []byte(heartbeat(11_100_000))) // cut off half way
		require.Equal(t, 1006, c.closed())
	})
	t.Run("above, in fragments", func(t *testing.T) {
		c := newServer(t, Config{MaxFrame: 1000}).dial(websocket.Dialer{WriteBufferSize: 300})
		w, err := c.NextWriter(websocket.TextMessage)
		require.NoError(t, err)
		_, err = io.WriteString(w, heartbeat(1000))
		if err == nil {
			_ = w.Close()
		}
		require.Equal(t, 1006, c.closed())
	})
	t.Run("above, but compressed below", func(t *testing.T) {
		c := newServer(t, Config{}).dial(websocket.Dialer{EnableCompression: true})
		c.EnableWriteCompression(true)
		c.send(heartbeat(11_100_000))
		c.expect(answer)
	})
	t.Run("compressed, and endless when unpacked", func(t *testing.T) {
		c := newServer(t, Config{MaxFrame: 10_000}).dial(websocket.Dialer{EnableCompression: true})
		c.EnableWriteCompression(true)
		_ = c.WriteMessage(websocket.TextMessage, []byte(heartbeat(1_000_000)))
		require.Equal(t, 1006, c.closed())
	})
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

func TestTooManyTopics(t *testing.T) {
	c := newServer(t, Config{}).dial(websocket.Dialer{})
	c.join()
	for i := 1; i <= 99; i++ {
		c.send(fmt.Sprintf(`["%d","%d","run:%d","phx_join",{"token":"x"}]`, i+1, i+1, i))
		c.expect(fmt.Sprintf(`["%d","%d","run:%d","phx_reply",{"response":{},"status":"ok"}]`, i+1, i+1, i))
	}
	c.send(`["200","200","run:100","phx_join",{"token":"x"}]`)
	c.expect(`["200","200","run:100","phx_reply",{"response":{"reason":"too many channels joined"},"status":"error"}]`)
	// Joining again takes no further place, and leaving gives one back.
	c.send(`["201","201","run:1","phx_join",{"token":"x"}]`)
	c.expect(`["201","201","run:1","phx_reply",{"response":{},"status":"ok"}]`)
	c.expect(`["2","2","run:1","phx_close",{}]`)
	c.send(`["201","202","run:1","phx_leave",{}]`)
	c.expect(`["201","202","run:1","phx_reply",{"response":{},"status":"ok"}]`)
	c.expect(`["201","201","run:1","phx_close",{}]`)
	c.send(`["203","203","run:100","phx_join",{"token":"x"}]`)
	c.expect(`["203","203","run:100","phx_reply",{"response":{},"status":"ok"}]`)
}

func TestMalformedMessagesCloseTheSocket(t *testing.T) {
	tests := []struct {
		name    string
		kind    int
		message string
	}{
		{name: "no JSON", kind: websocket.TextMessage, message: "not json"},
		{name: "four elements", kind: websocket.TextMessage, message: `["1","1","worker:queue","phx_join"]`},
		{name: "broken payload", kind: websocket.TextMessage, message: `["1","1","worker:queue","phx_join",{"a":]`},
		{name: "topic is no string", kind: websocket.TextMessage, message: `["1","1",7,"phx_join",{}]`},
		{name: "object", kind: websocket.TextMessage, message: `{"topic":"phoenix","event":"heartbeat"}`},
		{name: "unknown kind", kind: websocket.BinaryMessage, message: "\xff\x01\x02"},
		{name: "lengths beyond the end", kind: websocket.BinaryMessage, message: "\x00\xff\xff\xff\xffabc"},
		{name: "empty", kind: websocket.BinaryMessage, message: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newServer(t, Config{}).dial(websocket.Dialer{})
			require.NoError(t, c.WriteMessage(tt.kind, []byte(tt.message)))
			require.Equal(t, 1011, c.closed())
		})
	}
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

func BenchmarkPush(b *testing.B) {
	for _, transcript := range []*Transcript{nil, NewTranscript(1000)} {
		b.Run(fmt.Sprintf("transcript=%v", transcript != nil), func(b *testing.B) {
			b.ReportAllocs()
			s := benchSocket(b, transcript)
			message := []byte(`["1","7","run:a","run:start",{"timestamp":"1795168192891559"}]`)
			for b.Loop() {
				s.buf.Reset()
				s.buf.Write(message)
				s.receive(false)
				_, _, _, _ = s.out.take(batch{})
			}
		})
	}
	b.Run("baseline=json", func(b *testing.B) {
		b.ReportAllocs()
		message := []byte(`["1","7","run:a","run:start",{"timestamp":"1795168192891559"}]`)
		for b.Loop() {
			var in []json.RawMessage
			_ = json.Unmarshal(message, &in)
			_, _ = json.Marshal([]any{"1", "7", "run:a", "phx_reply", map[string]any{"response": nil, "status": "ok"}})
		}
	})
}

// benchSocket is a socket with a topic joined and no connection.
func benchSocket(b *testing.B, transcript *Transcript) *socket {
	b.Helper()
	e, err := NewEndpoint(Config{App: &recorderApp{}, Transcript: transcript})
	require.NoError(b, err)
	s := newSocket(e, nil, nil, "")
	s.buf.WriteString(`["1","1","run:a","phx_join",{"token":"x"}]`)
	s.receive(false)
	require.Len(b, s.topics, 1)
	return s
}
