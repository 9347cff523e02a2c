package chunk

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/egress"
)

// exchanger makes exchanges under a policy, as a run does.
type exchanger struct {
	t       *testing.T
	guard   *egress.Guard
	traffic *egress.Traffic
	client  *Client
	told    chan string
}

// newClient returns a client that connects as a list says.
func newClient(t *testing.T, list string) *Client {
	t.Helper()
	return newExchanger(t, list, egress.Limits{}).client
}

func newExchanger(t *testing.T, list string, limits egress.Limits) *exchanger {
	t.Helper()
	e := &exchanger{t: t, told: make(chan string, 100)}
	e.guard = egress.New(egress.Config{Policy: egress.MustParse(list), Limits: limits})
	e.traffic = e.guard.Open(func(line string) { e.told <- line })
	e.client = &Client{Traffic: e.traffic}
	t.Cleanup(func() { e.client.Close(); e.traffic.Close() })
	return e
}

func (e *exchanger) do(x Exchange) Answer {
	call, err := e.traffic.Admit(0)
	if err != nil {
		return Failed(err)
	}
	defer call.Free()
	x.Method, x.Call = "GET", call
	return e.client.Do(e.t.Context(), x)
}

func (e *exchanger) get(url string) Answer { return e.do(Exchange{URL: url, Decompress: true}) }

// raw serves each connection by hand, once its request was read.
func raw(t *testing.T, serve func(context.Context, net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var under sync.WaitGroup
	under.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			under.Go(func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					serve(r.Context(), conn)
				}
			})
		}
	})
	t.Cleanup(func() { listener.Close(); under.Wait() })
	return "http://" + listener.Addr().String()
}

// Guards against a name that leads to this machine, and against a server that sends a job there.
func TestARefusedAddressIsNeverReached(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(server.Close)
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	e := newExchanger(t, "", egress.Limits{})
	for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST.", "0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::1]", "2130706433", "0177.0.0.1", "127.1", "0x7f000001"} {
		answer := e.get("http://" + host + port)
		require.NotNil(t, answer.Error, host)
		require.Contains(t, []any{"EACCES", "ENOTFOUND"}, answer.Error["code"], host) // the latter if nobody takes it for an address
	}
	require.Zero(t, asked.Load())
	require.Regexp(t, `^The job may not connect to 127\.0\.0\.1:\d+: refused by --egress \(loopback addresses are not in its list\); to allow it: --egress public,private,loopback$`, <-e.told)
	require.Zero(t, e.guard.Stats().Connections[egress.Connection{Class: egress.Loopback, Outcome: egress.Opened}])
}

// A variable that names a proxy leads no job past what it may reach.
func TestProxiesOfTheEnvironmentAreNotForJobs(t *testing.T) {
	server := newServer(t)
	t.Setenv("HTTP_PROXY", server.URL)
	t.Setenv("http_proxy", server.URL)
	e := newExchanger(t, "127.0.0.1", egress.Limits{})
	require.Equal(t, "EACCES", e.get("http://169.254.169.254/").Error["code"])
	require.Empty(t, server.take())
}

// Guards against what a server may answer: none of it fills the worker, holds a run for ever, or is taken for an answer.
func TestHostileServers(t *testing.T) {
	endless := func(w io.Writer) {
		for part := make([]byte, 1<<20); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}
	tests := []struct {
		name  string
		serve func(context.Context, net.Conn)
		code  string
	}{
		{"an endless body", func(_ context.Context, c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			endless(c)
		}, "UND_ERR_RES_EXCEEDED_MAX_SIZE"},
		{"endless chunks", func(_ context.Context, c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for {
				if _, err := fmt.Fprintf(c, "1000\r\n%s\r\n", make([]byte, 0x1000)); err != nil {
					return
				}
			}
		}, "UND_ERR_RES_EXCEEDED_MAX_SIZE"},
		{"a bomb", func(_ context.Context, c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
			zipped, _ := gzip.NewWriterLevel(c, gzip.BestSpeed)
			endless(zipped)
		}, "UND_ERR_RES_EXCEEDED_MAX_SIZE"},
		{"a length that is too large to be true", func(_ context.Context, c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000000\r\n\r\nshort")
		}, "UND_ERR_SOCKET"},
		{"a length that is longer than the body", func(_ context.Context, c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
		}, "UND_ERR_SOCKET"},
		{"a body that comes byte by byte", func(_ context.Context, c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for {
				if _, err := c.Write([]byte{1}); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}, "ETIMEDOUT"},
		{"headers that come byte by byte", func(_ context.Context, c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Header: ")
			for {
				if _, err := c.Write([]byte{'x'}); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}, "ETIMEDOUT"},
	}
	limits := egress.Limits{ResponseBytes: 8 << 20, Exchange: 300 * time.Millisecond}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasPrefix(tt.code, "UND") {
				limits.Exchange = time.Minute
			} else {
				limits.Exchange = 300 * time.Millisecond
			}
			e := newExchanger(t, "loopback", limits)
			url := raw(t, tt.serve)
			before := allocated()
			answer := e.get(url)
			require.Equal(t, tt.code, answer.Error["code"], answer)
			require.Less(t, allocated()-before, uint64(80<<20)) // all that was ever asked for, not only what is left
		})
	}
}

// A body that goes on behind its length is no part of the answer, and none of the next one's.
func TestALengthThatIsShorterThanTheBody(t *testing.T) {
	e := newExchanger(t, "loopback", egress.Limits{})
	url := raw(t, func(_ context.Context, c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
	})
	for range 2 {
		require.Equal(t, "b2s=", e.get(url).Body)
	}
}

// Guards against a worker that is filled by many responses at once, each as large as one may be.
func TestManyLargeResponsesAtOnceTakeTheMemoryOfOne(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills memory")
	}
	e := newExchanger(t, "loopback", egress.Limits{ResponseBytes: 4 << 20})
	part := make([]byte, 4<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(part) }))
	t.Cleanup(server.Close)
	var under, watch sync.WaitGroup
	var most uint64
	over := make(chan struct{})
	runtime.GC()
	begin := inUse()
	watch.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
				most = max(most, inUse())
			}
		}
	})
	for range 48 {
		under.Go(func() {
			if answer := e.get(server.URL); answer.Error != nil {
				t.Error(answer.Error)
			}
		})
	}
	under.Wait()
	close(over)
	watch.Wait()
	t.Logf("%d MB", (most-begin)>>20)
	require.Less(t, most-begin, uint64(160<<20), "48 of them have 192 MB, and thrice that in all forms")
}

// Guards against a flood: what is refused costs nothing, and all are answered.
func TestAFloodOfRequestsIsBounded(t *testing.T) {
	server := newServer(t)
	e := newExchanger(t, "loopback", egress.Limits{Requests: 50})
	var refused atomic.Int64
	var under sync.WaitGroup
	for range 500 {
		under.Go(func() {
			if answer := e.get(server.URL + "/text"); answer.Error != nil && answer.Error["code"] == "EDQUOT" {
				refused.Add(1)
			}
		})
	}
	under.Wait()
	require.EqualValues(t, 450, refused.Load())
	require.Len(t, server.take(), 50)
	require.Equal(t, map[egress.Ending]uint64{egress.Answered: 50, egress.Limited: 450}, e.guard.Stats().Requests)
	require.LessOrEqual(t, e.guard.Stats().Connections[egress.Connection{Class: egress.Loopback, Outcome: egress.Opened}], uint64(50))
}

// Guards against jobs that keep connections apart by what they say of TLS, each with certificates of its own.
func TestTransportsAreBounded(t *testing.T) {
	server := newServer(t)
	e := newExchanger(t, "loopback", egress.Limits{Open: 20})
	for i := range 100 {
		answer := e.do(Exchange{URL: server.URL + "/text", TLS: TLS{Servername: fmt.Sprint("name-", i)}})
		require.Nil(t, answer.Error)
	}
	require.LessOrEqual(t, len(e.client.transports), mostTransports)
}

// Guards against a refusal because of connections that wait for another request to the same server.
func TestConnectionsThatAreIdleAreClosedForOthers(t *testing.T) {
	e := newExchanger(t, "loopback", egress.Limits{Open: 1})
	for i := range 5 {
		answer := e.get(newServer(t).URL + "/text")
		require.Nil(t, answer.Error, i)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// A response that a job leaves unread keeps no other from being asked for, and is ended when the time of an exchange is over.
func TestResponsesThatAreNotReadAreEnded(t *testing.T) {
	part := make([]byte, 4<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(part) }))
	t.Cleanup(server.Close)
	e := newExchanger(t, "loopback", egress.Limits{AtOnce: 2, Exchange: 200 * time.Millisecond})
	for id := range 3 {
		require.Nil(t, e.do(Exchange{URL: server.URL, Stream: id + 1}).Error, id)
	}
	require.Eventually(t, func() bool { return e.guard.Stats().Requests[egress.Limited] == 3 }, time.Minute, time.Millisecond)
	require.Equal(t, "ETIMEDOUT", e.do(Exchange{URL: server.URL, Op: opRest, Stream: 1}).Error["code"])
}
