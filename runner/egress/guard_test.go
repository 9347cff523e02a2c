package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// target listens at an address of this machine, and counts who connects.
func target(t *testing.T, at string) (port string, connected *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", at)
	if err != nil {
		t.Skip("this machine has no address " + at)
	}
	connected = new(atomic.Int64)
	var under sync.WaitGroup
	under.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connected.Add(1)
			conn.Close()
		}
	})
	t.Cleanup(func() { listener.Close(); under.Wait() })
	_, port, err = net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port, connected
}

// nameServer answers each question about IPv4 with the next of its addresses, the last one for ever.
type nameServer struct {
	mu        sync.Mutex
	addresses []string
	asked     []string
	under     sync.WaitGroup
}

func (n *nameServer) resolver(t *testing.T) *net.Resolver {
	t.Cleanup(n.under.Wait)
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		n.under.Go(func() { defer server.Close(); n.answer(server) })
		return client, nil
	}}
}

func (n *nameServer) answer(conn net.Conn) {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	question := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, question); err != nil {
		return
	}
	var m dnsmessage.Message
	if m.Unpack(question) != nil {
		return
	}
	m.Response = true
	m.Additionals = nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		n.mu.Lock()
		n.asked = append(n.asked, q.Name.String())
		at := netip.MustParseAddr(n.addresses[0])
		n.addresses = n.addresses[min(1, len(n.addresses)-1):]
		n.mu.Unlock()
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: at.As4()}}}
	}
	packed, _ := m.Pack()
	conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
}

func (n *nameServer) names() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// lines keeps what a run is told.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

// Guards against a name of anybody's that leads to this machine.
func TestANameThatLeadsToThisMachineIsRefused(t *testing.T) {
	port, connected := target(t, "127.0.0.1:0")
	names := &nameServer{addresses: []string{"127.0.0.1"}}
	guard := New(Config{Resolver: names.resolver(t)})
	var told lines
	traffic := guard.Open(told.add)
	defer traffic.Close()
	for range 3 {
		_, err := traffic.Dial(t.Context(), "tcp", "fhir.clinic.example:"+port, func() {})
		refused, ok := errors.AsType[*Error](err)
		require.True(t, ok, err)
		require.Equal(t, map[string]any{
			"code": "EACCES", "errno": -13, "syscall": "connect", "address": "127.0.0.1", "port": refused.Port,
			"message": "connect EACCES fhir.clinic.example:" + port + " (127.0.0.1): refused by --egress (loopback addresses are not in its list); to allow it: --egress public,private,loopback",
		}, refused.Members())
	}
	require.Zero(t, connected.Load())
	require.Equal(t, []string{"The job may not connect to fhir.clinic.example:" + port + " (127.0.0.1): refused by --egress (loopback addresses are not in its list); " +
		"to allow it: --egress public,private,loopback"}, told.take())
	require.Equal(t, map[Connection]uint64{{Loopback, Refused}: 3}, guard.Stats().Connections)
}

// Guards against a name server that answers otherwise once the address was looked at: what is dialled is what is judged.
func TestANameThatLeadsElsewhereTheNextTimeIsRefused(t *testing.T) {
	port, _ := target(t, "127.0.0.1:0") // stands for a public one
	_, secret := target(t, "127.0.0.2:"+port)
	names := &nameServer{addresses: []string{"127.0.0.1", "127.0.0.2"}}
	guard := New(Config{Policy: MustParse("127.0.0.1"), Resolver: names.resolver(t)})
	traffic := guard.Open(nil)
	defer traffic.Close()
	first, err := traffic.Dial(t.Context(), "tcp", "rebinds.example:"+port, func() {})
	require.NoError(t, err)
	require.NoError(t, first.Close())
	for range 2 {
		_, err = traffic.Dial(t.Context(), "tcp", "rebinds.example:"+port, func() {})
		require.ErrorContains(t, err, "(127.0.0.2)")
	}
	require.Zero(t, secret.Load())
	require.Equal(t, map[Connection]uint64{{Loopback, Opened}: 1, {Loopback, Refused}: 2}, guard.Stats().Connections)
}

// A name server learns nothing by a name that is refused.
func TestANameThatIsRefusedIsNotResolved(t *testing.T) {
	for _, list := range []string{"any,!*.evil.example", "fhir.clinic.example", "none"} {
		names := &nameServer{addresses: []string{"127.0.0.1"}}
		guard := New(Config{Policy: MustParse(list), Resolver: names.resolver(t)})
		traffic := guard.Open(nil)
		defer traffic.Close()
		_, err := traffic.Dial(t.Context(), "tcp", "credentials.of.a.run.EVIL.example.:80", func() {})
		require.ErrorContains(t, err, "EACCES", list)
		require.Empty(t, names.names(), list)
		require.Equal(t, map[Connection]uint64{{Unknown, Refused}: 1}, guard.Stats().Connections)
	}
}

// Guards against jobs that control their own worker, whatever a list says and at whatever address.
func TestNoJobConnectsToItsWorker(t *testing.T) {
	port, connected := target(t, "127.0.0.1:0")
	other, _ := target(t, "127.0.0.1:0")
	guard := New(Config{Policy: MustParse("any"), OwnPort: func() int { return int(netip.MustParseAddrPort("127.0.0.1:" + port).Port()) }})
	var told lines
	traffic := guard.Open(told.add)
	defer traffic.Close()
	addresses := []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"}
	own, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, one := range own {
		if network, ok := one.(*net.IPNet); ok && network.IP.To4() != nil {
			addresses = append(addresses, network.IP.String())
		}
	}
	for _, host := range addresses {
		_, err := traffic.Dial(t.Context(), "tcp", host+":"+port, func() {})
		require.ErrorContains(t, err, "the worker itself listens there", host)
	}
	require.Zero(t, connected.Load())
	require.Contains(t, told.take()[0], "The job may not connect to 127.0.0.1:"+port+": the worker itself listens there")
	made, err := traffic.Dial(t.Context(), "tcp", "127.0.0.1:"+other, func() {})
	require.NoError(t, err)
	require.NoError(t, made.Close())
}

func TestConnectionsOfARunAreBounded(t *testing.T) {
	port, connected := target(t, "127.0.0.1:0")
	guard := New(Config{Policy: MustParse("loopback"), Limits: Limits{Open: 2, Connections: 4}})
	var told lines
	traffic := guard.Open(told.add)
	dial := func() (net.Conn, error) { return traffic.Dial(t.Context(), "tcp", "127.0.0.1:"+port, func() {}) }
	var open []net.Conn
	for range 2 {
		made, err := dial()
		require.NoError(t, err)
		open = append(open, made)
	}
	require.NoError(t, open[0].Close())
	require.Error(t, open[0].Close(), "which counts once")
	for range 2 {
		made, err := dial()
		require.NoError(t, err)
		require.NoError(t, made.Close())
	}
	_, err := dial()
	require.EqualError(t, err, "EDQUOT: a run may open 4 connections")
	traffic.Close()
	_, err = open[1].Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed, "the end of the run closes what is open")
	_, err = dial()
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return connected.Load() == 4 }, time.Minute, time.Millisecond)
	require.Equal(t, []string{"The job has reached a limit of this worker: a run may open 4 connections"}, told.take())
}

// Guards against an error where there is none in Node: clients connect ahead and keep what is idle, which counts as open.
func TestAConnectionWaitsForAnotherToBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told lines
		traffic := New(Config{Policy: MustParse("loopback"), Limits: Limits{Open: 1}}).Open(told.add)
		connect := func() net.Conn {
			client, server := net.Pipe()
			t.Cleanup(func() { server.Close() })
			traffic.dials.Done()
			return traffic.opened(client, Loopback)
		}
		require.NoError(t, traffic.reserve(t.Context(), nil))
		open := connect()
		asked := 0
		begin := time.Now()
		_, err := traffic.Dial(t.Context(), "tcp", "127.0.0.1:1", func() { asked++ })
		require.EqualError(t, err, "EMFILE: a run may have 1 connections open at once")
		require.Equal(t, dialTimeout, time.Since(begin))
		require.Equal(t, 1, asked)
		require.Equal(t, []string{"The job has reached a limit of this worker: a run may have 1 connections open at once"}, told.take())

		require.NoError(t, traffic.reserve(t.Context(), func() { require.NoError(t, open.Close()) }), "a spare one is closed")
		open = connect()
		var under sync.WaitGroup
		for range 3 {
			under.Go(func() {
				require.NoError(t, traffic.reserve(t.Context(), func() {}))
				require.NoError(t, connect().Close())
			})
		}
		synctest.Wait()
		require.NoError(t, open.Close())
		under.Wait()
		require.Equal(t, dialTimeout, time.Since(begin), "all at once")

		require.NoError(t, traffic.reserve(t.Context(), nil))
		connect()
		under.Go(func() {
			_, err := traffic.Dial(t.Context(), "tcp", "127.0.0.1:1", func() {})
			require.ErrorIs(t, err, context.Canceled, "the end of the run ends what waits")
		})
		synctest.Wait()
		traffic.Close()
		under.Wait()
	})
}

// Requests begin in turn, so many at once; what waits is bounded by bytes.
func TestRequestsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := New(Config{Limits: Limits{AtOnce: 2, WaitingBytes: 4 * callBytes, Requests: 4}})
		traffic := guard.Open(nil)
		defer traffic.Close()
		turns := make(chan *Turn, 3)
		for range 3 {
			call, err := traffic.Admit(100)
			require.NoError(t, err)
			defer call.Free()
			go func() {
				turn, err := traffic.Await(t.Context(), func(error) {})
				if err == nil {
					turns <- turn
				}
			}()
		}
		synctest.Wait()
		require.Len(t, turns, 2)
		_, err := traffic.Admit(callBytes)
		require.ErrorContains(t, err, "EDQUOT: the requests that a run has under way may have 16384 bytes together")
		first := <-turns
		first.Free(nil)
		first.Free(io.EOF)
		synctest.Wait()
		require.Len(t, turns, 2)
		(<-turns).Free(io.EOF)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(io.ErrClosedPipe)
		(<-turns).Free(&Error{Code: "EACCES"})
		turn, err := traffic.Await(t.Context(), func(error) {})
		require.NoError(t, err)
		turn.Free(nil)
		_, err = traffic.Await(ctx, cancel)
		require.EqualError(t, err, "EDQUOT: a run may make 4 requests")
		require.Equal(t, map[Ending]uint64{Answered: 2, Limited: 1, Unanswered: 1, Kept: 1}, guard.Stats().Requests)
	})
}

// Guards against a server that sends a byte whenever one has nearly given up.
func TestAnExchangeThatNeverEndsIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := New(Config{})
		var told lines
		traffic := guard.Open(told.add)
		defer traffic.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		begin := time.Now()
		turn, err := traffic.Await(ctx, cancel)
		require.NoError(t, err)
		reader, writer := io.Pipe()
		go func() {
			for ctx.Err() == nil {
				writer.Write([]byte{1})
				time.Sleep(time.Second)
			}
			writer.CloseWithError(context.Cause(ctx))
		}()
		_, err = io.ReadAll(turn.Body(reader))
		turn.Free(err)
		require.EqualError(t, err, "ETIMEDOUT: an exchange may take 10m0s")
		require.Equal(t, 10*time.Minute, time.Since(begin).Truncate(2*time.Second))
		require.Len(t, told.take(), 1)
		require.Equal(t, map[Ending]uint64{Limited: 1}, guard.Stats().Requests)
	})
}

func TestBytesOfARunAreBounded(t *testing.T) {
	guard := New(Config{Limits: Limits{RunBytes: 100, ResponseBytes: 60}})
	traffic := guard.Open(nil)
	defer traffic.Close()
	exchange := func(sent, size int) error {
		turn, err := traffic.Await(t.Context(), func(error) {})
		require.NoError(t, err)
		defer turn.Free(nil)
		if _, err = io.ReadAll(turn.Sent(bytes.NewReader(make([]byte, sent)))); err == nil {
			_, err = io.ReadAll(turn.Body(bytes.NewReader(make([]byte, size))))
		}
		return err
	}
	require.NoError(t, exchange(10, 20))
	require.EqualError(t, exchange(0, 61), "a response may have 60 bytes")
	const over = "EDQUOT: a run may send and receive 100 bytes in all, by its --egress-limit"
	require.EqualError(t, exchange(0, 10), over)
	require.EqualError(t, exchange(1, 0), over)
	stats := guard.Stats()
	require.EqualValues(t, 11, stats.Sent)
	require.EqualValues(t, 91, stats.Received)
}

// Large responses are in memory one after the other, so that many at once take no more than one.
func TestLargeResponsesAreReadInTurn(t *testing.T) {
	traffic := New(Config{}).Open(nil)
	defer traffic.Close()
	var most, now atomic.Int64
	var under sync.WaitGroup
	for range 8 {
		call, err := traffic.Admit(0)
		require.NoError(t, err)
		under.Go(func() {
			defer call.Free()
			first := io.MultiReader(strings.NewReader(strings.Repeat("x", mostTogether)), readerFunc(func([]byte) (int, error) {
				most.Store(max(most.Load(), now.Add(1)))
				return 0, io.EOF
			}))
			if data, err := call.ReadAll(t.Context(), first); err != nil || len(data) != mostTogether {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
			now.Add(-1)
		})
	}
	under.Wait()
	require.EqualValues(t, 1, most.Load())
}

// Guards against answers that pile up while the job computes: what it has not taken keeps others from being read.
func TestAnswersWaitForTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := New(Config{Limits: Limits{AtOnce: 2}}).Open(nil)
		defer traffic.Close()
		var calls []*Call
		var came atomic.Int64
		for range 5 {
			call, err := traffic.Admit(0)
			require.NoError(t, err)
			calls = append(calls, call)
			go func() {
				if _, err := call.ReadAll(t.Context(), strings.NewReader("answer")); err == nil {
					came.Add(1)
				}
			}()
			synctest.Wait()
		}
		require.EqualValues(t, 2, came.Load())
		for _, call := range calls {
			call.Free()
			synctest.Wait()
		}
		require.EqualValues(t, 5, came.Load())
	})
}

// A flood of refusals is no flood in the log of the run.
func TestWhatIsToldIsBounded(t *testing.T) {
	var told lines
	traffic := New(Config{Policy: MustParse("none")}).Open(told.add)
	defer traffic.Close()
	for i := range 1000 {
		_, err := traffic.Dial(t.Context(), "tcp", net.JoinHostPort("10.0.0.1", string(rune('1'+i%9))+strings.Repeat("0", i%4)), func() {})
		require.ErrorContains(t, err, "EACCES")
	}
	require.Len(t, told.take(), mostTold+1)
	require.Contains(t, told.take()[mostTold], "the log has no line for each")
}
