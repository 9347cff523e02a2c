package channel

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// endless answers connections with head and then one line for ever, as slowly as it is
// told, and returns how many bytes were taken of each answer.
func endless(t *testing.T, cfg *Config, head, line string, pause time.Duration) (taken chan int) {
	listener := wstestListener(t)
	cfg.NetDial = listener.DialContext
	taken = make(chan int, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				written, _ := io.WriteString(conn, head)
				for {
					n, err := io.WriteString(conn, line)
					if written += n; err != nil {
						taken <- written
						return
					}
					time.Sleep(pause)
				}
			}()
		}
	}()
	return taken
}

func through(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.test:3128") }

// Guards against a server, or what is in its place, that fills the worker's memory before it is
// one.
func TestAHandshakeIsBounded(t *testing.T) {
	tests := []struct {
		name, head, line string
		proxy            func(*http.Request) (*url.URL, error)
		url              string
		says             string
	}{
		{name: "headers", head: "HTTP/1.1 101 Switching Protocols\r\n", line: "X: " + strings.Repeat("y", 1000) + "\r\n"},
		{name: "a header", head: "HTTP/1.1 101 Switching Protocols\r\nX: ", line: strings.Repeat("y", 1000)},
		{name: "a status", head: "HTTP/1.1 403 ", line: strings.Repeat("y", 1000)},
		{name: "informational answers", line: "HTTP/1.1 103 Early Hints\r\n\r\n", says: "HTTP 103"},
		{name: "a proxy", head: "HTTP/1.1 200 OK\r\n", line: "X: " + strings.Repeat("y", 1000) + "\r\n", proxy: through},
		{name: "a proxy to TLS", head: "HTTP/1.1 200 OK\r\n", line: "X: " + strings.Repeat("y", 1000) + "\r\n", proxy: through, url: "wss://lightning.test/worker"},
		{name: "a proxy that says no", head: "HTTP/1.1 403 ", line: strings.Repeat("y", 1000), proxy: through},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				cfg := Config{URL: "ws://localhost/socket", Proxy: tt.proxy, Logger: slog.New(slog.NewTextHandler(&log, nil))}
				if tt.url != "" {
					cfg.URL = tt.url
				}
				taken := endless(t, &cfg, tt.head, tt.line, 0)
				socket, err := Open(cfg)
				require.NoError(t, err)
				for range 5 {
					require.LessOrEqual(t, <-taken, maxHandshake)
				}
				synctest.Wait()
				status, _ := socket.Status()
				require.GreaterOrEqual(t, status.Attempts, 5)
				require.ErrorContains(t, status.Err, cmp.Or(tt.says, "more than 256 KiB"))
				require.Less(t, log.Len(), 1000)
				require.NoError(t, socket.Close())
			})
		})
	}
}

// A byte a second is a sign of life, and no end.
func TestASlowHandshakeIsGivenUp(t *testing.T) {
	for name, proxy := range map[string]func(*http.Request) (*url.URL, error){
		"server": nil,
		"proxy":  through,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{URL: "ws://localhost/socket", Proxy: proxy}
				taken := endless(t, &cfg, "HTTP/1.1 101 Switching Protocols\r\nX: ", "y", time.Second)
				began := time.Now()
				socket, err := Open(cfg)
				require.NoError(t, err)
				require.Less(t, <-taken, 100)
				require.Less(t, time.Since(began), 17*time.Second)
				synctest.Wait()
				require.ErrorContains(t, socket.Err(), "no connection within 15s")
				require.NoError(t, socket.Close())
				time.Sleep(2 * time.Second) // the server notices
			})
		})
	}
}

// Guards against a line of the log that is as long as somebody else likes.
func TestWhatADialSaysIsShort(t *testing.T) {
	long := strings.Repeat("y", maxHandshake/2)
	for name, head := range map[string]string{
		"a status":    "HTTP/1.1 403 " + long + "\r\n\r\n",
		"no HTTP":     long + "\r\n\r\n",
		"a version":   "HTTP/" + long + " 200 OK\r\n\r\n",
		"not a line":  "HTTP/1.1 101 Switching Protocols\r\n" + long + "\r\n\r\n",
		"a body":      "HTTP/1.1 500 no\r\nContent-Length: 100000\r\n\r\n" + long,
		"no encoding": "HTTP/1.1 500 no\r\nTransfer-Encoding: " + long + "\r\n\r\n",
	} {
		for _, proxy := range []func(*http.Request) (*url.URL, error){nil, through} {
			t.Run(fmt.Sprint(name, ", proxy: ", proxy != nil), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := Config{URL: "ws://localhost/socket", Proxy: proxy}
					taken := endless(t, &cfg, head, "\n", 0)
					socket, err := Open(cfg)
					require.NoError(t, err)
					<-taken
					synctest.Wait()
					require.Error(t, socket.Err())
					require.Less(t, len(socket.Err().Error()), 1200)
					require.NoError(t, socket.Close())
				})
			})
		}
	}
}

// What is bounded is the handshake, and not what comes after it.
func TestAConnectionMayReadMoreThanItsHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		for range 3 {
			pushing := asyncPush(topic, "fetch", nil)
			p.ok(p.read(), `"`+strings.Repeat("x", maxHandshake)+`"`)
			require.NoError(t, (<-pushing).err)
		}
	})
}
