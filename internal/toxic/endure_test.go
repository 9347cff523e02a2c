package toxic

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

var endure = flag.Duration("endure", 0, "how long TestEndurance takes, an hour for example")

// TestEndurance is `make endure`: one worker, the binary as it is shipped, goes
// through faults of the network and of the server for as long as it is told to.
// It must lose no run that it has joined, and keep the memory it had after a tenth
// of the time; and when the server is away, it may not use the processor.
func TestEndurance(t *testing.T) {
	if *endure == 0 {
		t.Skip("for make endure")
	}
	w := newWeather(t)
	begin := time.Now()
	var early int
	for range 10 {
		w.blow(*endure / 10)
		w.calm()
		now := w.worker.residentKiB()
		t.Logf("%v: %d runs, %d lost with the reply to their claim; the worker has %d KiB", time.Since(begin).Round(time.Second), w.taken, w.lost, now)
		if early == 0 {
			early = now
		}
		require.Less(t, now, early+early/5, "the worker's memory grows")
	}
	require.NoError(t, w.server.Close())
	used := w.worker.cpu()
	time.Sleep(20 * time.Second) // a measurement, of nothing happening
	used = w.worker.cpu() - used
	t.Logf("20 s without a server took %v of processor time; faults: %v", used, w.server.Stats().Faults)
	require.Less(t, used, 200*time.Millisecond)
}

// weather is a network of which the server is not well either, with a worker in
// a process of its own.
type weather struct {
	*network

	worker *process
	rng    *rand.Rand
	next   int
	open   map[string]bool
	taken  int
	lost   int
}

func newWeather(t *testing.T) *weather {
	t.Helper()
	seed := seedOf(t)
	w := &weather{network: newNetwork(t), rng: rand.New(rand.NewPCG(seed, 2)), open: make(map[string]bool)}
	w.worker = startWorker(t, "ws://"+w.proxy.Listen+"/worker", w.server.Secret())
	return w
}

// blow lets runs come in, and things go wrong, for so long.
func (w *weather) blow(d time.Duration) {
	until := time.Now().Add(d)
	for _, rule := range []fault.Rule{
		{Action: fault.Drop},
		{Action: fault.Drop, When: fault.After},
		{Action: fault.Close, Code: 1011, When: fault.After},
		{Action: fault.Crash},
		{Action: fault.Crash, When: fault.After},
		{Action: fault.Double},
		{Action: fault.Reorder},
		{Action: fault.Withhold},
		{Action: fault.Delay, Delay: 2 * time.Second},
		{Action: fault.Stall, Delay: time.Second},
		{Action: fault.Restart, Delay: time.Second},
		{Action: fault.Restart, Code: 1006, When: fault.After, Delay: time.Second},
	} {
		rule.Probability = 0.0005
		_, err := w.server.AddFault(rule)
		require.NoError(w.t, err)
	}
	for time.Now().Before(until) {
		for range w.rng.IntN(12) {
			w.enqueue()
		}
		w.addToxic(w.rng, allToxics)
		wait(w.t.Context(), time.Duration(w.rng.IntN(300))*time.Millisecond)
		w.proxy.Toxics.ResetToxics(w.t.Context())
		wait(w.t.Context(), time.Duration(w.rng.IntN(1500))*time.Millisecond)
		w.settle()
	}
}

// calm ends the weather, and waits for the runs that are under way.
func (w *weather) calm() {
	w.server.ClearFaults()
	wait(w.t.Context(), 2*time.Second)
	require.NoError(w.t, w.server.Kick(fault.Abnormal)) // what is withheld is waited for while its join lives
	deadline := time.Now().Add(3 * time.Minute)
	for w.settle(); len(w.open) > 0; w.settle() {
		require.True(w.t, time.Now().Before(deadline), "runs did not end: %v", w.open)
		wait(w.t.Context(), 100*time.Millisecond)
	}
	wait(w.t.Context(), 10*time.Second) // until the worker has given back the memory that it is done with
}

func (w *weather) enqueue() {
	id := fmt.Sprint("r", w.next)
	w.next++
	plan := `{"id":"` + id + `","jobs":[
		{"id":"a","adaptor":"@openfn/language-common@latest","body":"fn(async s => { for (let i = 0; i < 4; i++) { console.log(i); await new Promise(d => setTimeout(d, 100)); } return s; })"},
		{"id":"b","adaptor":"@openfn/language-common@latest","body":"fn(s => ({ data: { big: 'x'.repeat(5000) } }))"}],
		"edges":[{"id":"e","source_job_id":"a","target_job_id":"b","condition":"on_job_success"}]}`
	_, err := w.server.Enqueue(mockserver.Run{Plan: json.RawMessage(plan)})
	require.NoError(w.t, err)
	w.open[id] = true
}

// settle checks the runs that are over.
func (w *weather) settle() {
	for id := range w.open {
		record, ok := w.server.Inspect(id)
		require.True(w.t, ok)
		switch {
		case record.State == "claimed" && len(record.Events) == 0 && time.Since(record.ClaimedAt) > time.Minute:
			w.lost++
		case record.State.Final():
			w.taken++
			w.checkEvents(id, record, "step:start", "step:complete", "step:start", "step:complete", "run:complete")
		default:
			continue
		}
		delete(w.open, id)
	}
}

// process is the worker, as it is shipped.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
}

func startWorker(t *testing.T, url, secret string) *process {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "phxworker")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/phxworker")
	build.Dir = filepath.Join("..", "..")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))

	var errors bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "--lightning", url, "--capacity", "20", "--log", "error")
	cmd.Env = append(os.Environ(), "WORKER_SECRET="+secret)
	cmd.Stderr = &errors
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		for range 3 { // the server is away: there is nothing to wait for
			_ = cmd.Process.Signal(syscall.SIGTERM)
			time.Sleep(100 * time.Millisecond)
		}
		_ = cmd.Wait()
		require.NotContains(t, errors.String(), "panic")
		t.Logf("the worker's errors:\n%.2000s", errors.String())
	})
	return &process{t: t, cmd: cmd}
}

// residentKiB is what the process has in memory.
func (p *process) residentKiB() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	match := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(p.t, match)
	n, err := strconv.Atoi(string(match[1]))
	require.NoError(p.t, err)
	return n
}

// cpu is the processor time that the process has used.
func (p *process) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	_, rest, found := strings.Cut(string(stat), ") ")
	require.True(p.t, found)
	fields := strings.Fields(rest)
	var ticks int
	for _, field := range fields[11:13] { // user and system, in hundredths of a second
		n, err := strconv.Atoi(field)
		require.NoError(p.t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
