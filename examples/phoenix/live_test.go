package phoenix_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what these tests wait for. They run in real time, because a process
// of Elixir does.
const patience = 30 * time.Second

func TestTheElixirPassesItsOwnTests(t *testing.T) {
	needElixir(t)
	out, err := exec.CommandContext(t.Context(), "elixir", "-r", "test/test_helper.exs", "-r", "test/*_test.exs", "-e", "").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `[1-9]\d* tests, 0 failures`, string(out))
}

func TestTheElixirIsFormatted(t *testing.T) {
	needElixir(t)
	if _, err := exec.LookPath("mix"); err != nil {
		t.Skip("mix is not in PATH")
	}
	if os.Getenv("HOME") == "" { // mix does nothing without one
		t.Setenv("HOME", t.TempDir())
	}
	out, err := exec.CommandContext(t.Context(), "mix", "format", "--check-formatted").CombinedOutput()
	require.NoError(t, err, "run mix format in examples/phoenix: %s", out)
}

// desk is an engine that does what the id of a run says.
type desk struct{ started, notices chan string }

func newDesk() *desk {
	return &desk{started: make(chan string, 100), notices: make(chan string, 100)}
}

func (d *desk) Prepare(_ context.Context, run *phxworker.Run) (phxworker.Execution, error) {
	return listening{phxworker.Prepared(nil, func(ctx context.Context) (phxworker.Result, error) { return d.execute(ctx, run) }), d.notices}, nil
}

func (d *desk) execute(ctx context.Context, run *phxworker.Run) (phxworker.Result, error) {
	d.started <- run.ID
	switch {
	case run.ID == "fails" && run.Attempt == 1:
		return phxworker.Result{}, phxworker.ErrRequeue
	case run.ID == "waits":
		<-ctx.Done()
		return phxworker.Result{}, context.Cause(ctx)
	case run.ID == "hears":
		return phxworker.Result{State: json.RawMessage(<-d.notices)}, nil
	}
	return phxworker.Result{State: json.RawMessage(`{"done":true}`)}, nil
}

// listening is an execution that takes notices.
type listening struct {
	phxworker.Execution

	notices chan string
}

var _ phxworker.Notifiable = listening{}

func (l listening) Notify(_ context.Context, notice json.RawMessage) { l.notices <- string(notice) }

func TestAWorkerUsesEveryExtensionOfThePhoenixServer(t *testing.T) {
	server := servePhoenix(t, "lease_ms=2000", "interval_ms=200")
	desk := newDesk()
	_, results, ended := server.hire(phxworker.Config{Engine: desk, Groups: slots.MustParse("manual>*:3")})

	server.enqueue("hears")
	require.Equal(t, "hears", receive(t, desk.started))
	server.enqueue("waits")
	require.Equal(t, "waits", receive(t, desk.started))
	server.enqueue("fails")
	require.Equal(t, "fails", receive(t, desk.started))
	require.Equal(t, runner.Requeued, receive(t, results).Settled)
	require.Equal(t, "fails", receive(t, desk.started), "three seconds later, which is more than a lease")
	require.Equal(t, runner.Processed, receive(t, results).Settled)

	require.Equal(t, ":ok", server.eval(`RunQueue.notify("hears", %%{"stock" => 3})`))
	require.Equal(t, "hears", receive(t, results).RunID)
	require.Equal(t, ":ok", server.eval(`RunQueue.cancel("waits", "not needed")`))
	require.Equal(t, runner.Cancelled, receive(t, results).Settled)
	require.Equal(t, ":ok", server.eval(`RunQueue.drain()`))
	require.NoError(t, receive(t, ended))

	require.Equal(t, `{:over, "success"}`, server.eval(`RunQueue.info("fails").state`))
	require.Equal(t, `{2, nil}`, server.eval(`{RunQueue.info("fails").attempt, RunQueue.info("fails").until}`))
	require.Equal(t, `{"run:complete", "cancel"}`, server.eval(`[{event, payload} | _] = RunQueue.info("waits").events; {event, payload["reason"]}`))
	require.Equal(t, `%{"stock" => 3}`, server.eval(`[{"run:complete", payload} | _] = RunQueue.info("hears").events; payload["final_state"]`))

	sent, heard := server.events("->"), server.events("<-")
	require.GreaterOrEqual(t, sent["run:renew"], 4, "of two runs that took three leases and more")
	require.Equal(t, 1, sent["run:release"])
	require.Greater(t, sent["worker:status"], 4)
	require.Equal(t, 1, heard["worker:drain"])
	require.Equal(t, 1, heard["run:cancel"])
	require.Equal(t, 1, heard["run:notify"])
	require.Zero(t, heard["phx_error"], "no channel crashed")
}

// door is a network that can be shut: connections end, and no more come about.
type door struct {
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

func (d *door) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil || d.shut {
		if conn != nil {
			_ = conn.Close()
		}
		return nil, fmt.Errorf("the door is shut: %w", net.ErrClosed)
	}
	d.conns = append(d.conns, conn)
	return conn, nil
}

func (d *door) set(shut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = shut
	for _, conn := range d.conns {
		_ = conn.Close()
	}
	d.conns = nil
}

// One run, two workers: the second has it from the first, which was cut off, and the
// effects are those of the second alone.
func TestARunOfAWorkerThatIsCutOffIsDoneOnceByAnother(t *testing.T) {
	server := servePhoenix(t, "lease_ms=900", "interval_ms=200", "silence_ms=700")
	first, second, way := newDesk(), newDesk(), new(door)
	_, results, _ := server.hire(phxworker.Config{Engine: first, Groups: slots.MustParse("manual>*:1"), Transport: phxworker.Transport{NetDial: way.dial}})
	server.enqueue("waits")
	require.Equal(t, "waits", receive(t, first.started))
	waitFor(t, func() bool { return server.eval(`length(RunQueue.info("waits").events)`) == "1" })
	way.set(true)

	worker, _, _ := server.hire(phxworker.Config{Engine: second, Groups: slots.MustParse("manual>*:1")})
	require.Equal(t, "waits", receive(t, second.started))
	require.Equal(t, "2", server.eval(`RunQueue.info("waits").attempt`))
	way.set(false)
	require.Equal(t, runner.LeaseLost, receive(t, results).Settled)
	require.NoError(t, worker.Cancel("waits"))
	waitFor(t, func() bool { return server.eval(`RunQueue.info("waits").state`) == `{:over, "cancel"}` })

	events := server.eval(`for {event, _} <- Enum.reverse(RunQueue.info("waits").events), event in ["run:start", "run:complete"], do: event`)
	require.Equal(t, `["run:start", "run:start", "run:complete"]`, events)
	require.Regexp(t, `^\["[\w-]{43}"\]$`, server.eval(`RunQueue.info("waits").old_tokens`))
}

// waitFor asks again and again, as long as it takes the server to answer.
func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		require.True(t, time.Now().Before(deadline), "it never came to be")
	}
}
