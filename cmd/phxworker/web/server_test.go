package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// raw serves a worker that has not begun, and returns a connection to it.
func raw(t *testing.T) (conn net.Conn, stop func() error) {
	t.Helper()
	h := build(t, phxworker.Config{}, withControls)
	listener := wstest.NewListener()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- New(h.worker, Config{}).Serve(ctx, listener) }()
	conn, err := listener.DialContext(ctx, "tcp", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(); cancel() })
	return conn, func() error {
		cancel()
		return <-served
	}
}

// endOf returns what came on a connection until it ended, and when that was.
func endOf(t *testing.T, conn net.Conn) (text string, after time.Duration) {
	t.Helper()
	begin := time.Now()
	require.NoError(t, conn.SetReadDeadline(begin.Add(time.Hour)))
	data, err := io.ReadAll(conn)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the connection was never ended")
	return string(data), time.Since(begin)
}

func TestSlowClientsAreNotWaitedFor(t *testing.T) {
	tests := []struct {
		name, sent string
		want       time.Duration
	}{
		{"says nothing", "", headerTimeout},
		{"half of a head", "GET /status HTTP/1.1\r\nHost: loc", headerTimeout},
		{"half of a body", "PUT /groups/manual%3E* HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{", readTimeout},
		{"nothing more", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", idleTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, stop := raw(t)
				if tt.sent != "" {
					_, err := io.WriteString(conn, tt.sent)
					require.NoError(t, err)
				}
				_, after := endOf(t, conn)
				require.LessOrEqual(t, after, tt.want+time.Second) // which the server lingers for
				require.NoError(t, stop())
			})
		})
	}
}

func TestHeadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, stop := raw(t)
		go func() {
			_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 10*maxHeader))
		}()
		answer, _ := endOf(t, conn)
		require.Contains(t, answer, "431 Request Header Fields Too Large")
		require.NoError(t, stop())
	})
}

func TestTheEndOfTheServerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{Claim: phxworker.Claim{Manual: true}}, Config{})
		_, err := h.upstream.AddFault(fault.Rule{Event: "claim", Action: fault.Delay, Delay: time.Hour})
		require.NoError(t, err)
		listener := wstest.NewListener()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- New(h.worker, Config{OpenClaim: true}).Serve(ctx, listener) }()
		transport := &http.Transport{DialContext: listener.DialContext}
		defer transport.CloseIdleConnections()
		asked := make(chan error, 1)
		go func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/claim", nil)
			if err == nil {
				_, err = transport.RoundTrip(request)
			}
			asked <- err
		}()
		settle(time.Second)
		begin := time.Now()
		cancel()
		require.NoError(t, <-served)
		require.Equal(t, shutdownGrace, time.Since(begin).Truncate(time.Second))
		require.Error(t, <-asked)
	})
}

// broken is a listener whose system has given up on it.
type broken struct{ net.Listener }

var errBroken = errors.New("too many open files, for good")

func (broken) Accept() (net.Conn, error) { return nil, errBroken }
func (broken) Close() error              { return nil }
func (broken) Addr() net.Addr            { return &net.TCPAddr{} }

func TestAListenerThatFailsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, phxworker.Config{}, Config{})
		require.ErrorIs(t, New(h.worker, Config{}).Serve(t.Context(), broken{}), errBroken)
	})
}
