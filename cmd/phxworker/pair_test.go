package main

import (
	"io"
	"net"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/lightning"
)

// road is a way to the server that can be closed.
type road struct {
	listener net.Listener
	server   string // host and port

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

func newRoad(t *testing.T, server *mockserver.Server) (r *road, address string) {
	t.Helper()
	target, err := url.Parse(server.URL())
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r = &road{listener: listener, server: target.Host}
	var carrying sync.WaitGroup
	carrying.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			carrying.Go(func() { r.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.close()
		carrying.Wait()
	})
	target.Host = listener.Addr().String()
	return r, target.String()
}

func (r *road) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer far.Close()
	r.mu.Lock()
	closed := r.closed
	r.conns = append(r.conns, near, far)
	r.mu.Unlock()
	if closed {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
}

func (r *road) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}

func (r *road) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = false
}

// Two workers, as they are shipped, and one of them is lost in the middle of a run:
// the other one does it, and the server hears of each end exactly once.
func TestTwoWorkersAndOneIsLost(t *testing.T) {
	binary := buildWorker(t)
	tests := []struct {
		name string
		// lose and find happen to the first worker; find after the second one has
		// ended the run.
		lose, find func(s *shipped, r *road)
		// notices is what the first one logs in the end.
		notices string
		// keeps tells that it ends the run itself.
		keeps bool
	}{
		{
			name:    "stopped, and goes on",
			lose:    func(s *shipped, _ *road) { s.send(syscall.SIGSTOP) },
			find:    func(s *shipped, _ *road) { s.send(syscall.SIGCONT) },
			notices: "another worker's now",
		},
		{name: "killed", lose: func(s *shipped, _ *road) { s.send(syscall.SIGKILL) }},
		{name: "drained", keeps: true, lose: func(s *shipped, _ *road) { s.send(syscall.SIGTERM) }, notices: "run complete"},
		{
			name:    "cut off, and back",
			lose:    func(_ *shipped, r *road) { r.close() },
			find:    func(_ *shipped, r *road) { r.open() },
			notices: "another worker's now",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			server := mockserver.NewTest(t, mockserver.Config{Secret: secret, Mode: mockserver.Extended, Lease: 6 * time.Second, WakeDebounce: -1})
			road, address := newRoad(t, server)
			first := join(t, server, binary, address, "--extensions", "all", "--capacity", "1")
			enqueue(t, server, "slow", waiting(t, 2*time.Second))
			require.Eventually(t, func() bool { return len(sent(server, "run:log", "under way")) > 0 }, patient, time.Millisecond)
			join(t, server, binary, server.URL(), "--extensions", "all", "--capacity", "1")
			tt.lose(first, road)

			require.Equal(t, "success", wait(t, server, "slow").Reason)
			if tt.find != nil {
				tt.find(first, road)
			}
			if tt.notices != "" {
				first.stderr.await(t, tt.notices)
			}
			record, _ := server.Inspect("slow")
			require.Equal(t, lightning.Success, record.State)
			require.Len(t, record.Owners, map[bool]int{true: 1, false: 2}[tt.keeps])
			ends := 0
			for _, e := range record.Events {
				if e.Event == "run:complete" && e.Status == "ok" {
					require.Equal(t, len(record.Owners), e.Owner, "by the last owner")
					ends++
				}
			}
			require.Equal(t, 1, ends)
		})
	}
}

func (s *shipped) send(signal syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.worker.Process.Signal(signal))
}
