package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner/delivery"
	"github.com/phxworker/phxworker/runner/terms"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a mock Lightning and a socket to it, in memory; what the tests assert
// is what this server recorded.
type wire struct {
	t      *testing.T
	server *mockserver.Server
	socket *channel.Socket
	queue  *channel.Topic

	mu    sync.Mutex
	conns []net.Conn
}

// newWire must be called inside a synctest bubble.
func newWire(t *testing.T, cfg mockserver.Config) *wire {
	t.Helper()
	cfg.OpaqueTokens = true
	return newSigningWire(t, cfg)
}

// newSigningWire has a server whose tokens tell when they are over, as Lightning's do.
func newSigningWire(t *testing.T, cfg mockserver.Config) *wire {
	t.Helper()
	cfg.WakeDebounce = 24 * time.Hour
	server, err := mockserver.New(mocktest.Config(cfg))
	require.NoError(t, err)
	listener := wstest.Serve(t, server)
	w := &wire{t: t, server: server}
	w.socket, err = channel.Open(channel.Config{
		URL: "ws://lightning.test/worker",
		Params: func(context.Context) (url.Values, error) {
			claims := jwt.MapClaims{"iss": "urn:openfn:worker", "iat": time.Now().Unix(), "worker_id": "test"}
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(server.Secret()))
			return url.Values{"token": {token}}, err
		},
		NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := listener.DialContext(ctx, network, addr)
			if err == nil {
				w.mu.Lock()
				w.conns = append(w.conns, conn)
				w.mu.Unlock()
			}
			return conn, err
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.socket.Close())
		require.NoError(t, server.Close())
	})
	w.queue, err = w.socket.Join(t.Context(), "worker:queue", map[string]int{"capacity": 1})
	require.NoError(t, err)
	return w
}

// cut drops the connection without a word.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

// claim queues the run and claims it.
func (w *wire) claim(run mockserver.Run) (id, token string) {
	w.t.Helper()
	_, err := w.server.Enqueue(run)
	require.NoError(w.t, err)
	reply, err := w.queue.Push(w.t.Context(), "claim", map[string]any{"demand": 1, "worker_name": nil})
	require.NoError(w.t, err)
	var body struct{ Runs []struct{ ID, Token string } }
	require.NoError(w.t, reply.Decode(&body))
	require.Len(w.t, body.Runs, 1)
	return body.Runs[0].ID, body.Runs[0].Token
}

// lifetime returns how long a token of a signing wire is good.
func (w *wire) lifetime(token string) time.Duration {
	w.t.Helper()
	var claims jwt.RegisteredClaims
	_, _, err := jwt.NewParser().ParseUnverified(token, &claims)
	require.NoError(w.t, err)
	return claims.ExpiresAt.Sub(claims.NotBefore.Time)
}

// run takes a run with this plan through a Runner and returns its outcome.
func (w *wire) run(cfg Config, run mockserver.Run) Outcome {
	w.t.Helper()
	return w.runFor(nil, cfg, run)
}

// runFor does that for a host.
func (w *wire) runFor(host Host, cfg Config, run mockserver.Run) Outcome {
	w.t.Helper()
	id, token := w.claim(run)
	return New(cfg).Run(w.t.Context(), w.t.Context(), w.socket, claim.Run{ID: id, Token: token}, host)
}

// early is the host of a run that was claimed ahead.
type early struct {
	noHost

	begin <-chan error
}

func (e early) Begin() <-chan error { return e.begin }

// events returns the events of the run with this name that the server took.
func (w *wire) events(id, name string) []map[string]any {
	w.t.Helper()
	record, ok := w.server.Inspect(id)
	require.True(w.t, ok)
	var out []map[string]any
	for _, e := range record.Events {
		if e.Event == name && e.Status == "ok" {
			var payload map[string]any
			require.NoError(w.t, json.Unmarshal(e.Payload, &payload))
			out = append(out, payload)
		}
	}
	return out
}

// names returns the events of the run in order, the logs left out.
func (w *wire) names(id string) []string {
	w.t.Helper()
	record, _ := w.server.Inspect(id)
	var out []string
	for _, e := range record.Events {
		if e.Event != "run:log" {
			out = append(out, e.Event)
		}
	}
	return out
}

// logged returns the messages of the run's log.
func (w *wire) logged(id string) []string {
	w.t.Helper()
	var out []string
	for _, line := range w.events(id, "run:log") {
		for _, m := range line["message"].([]any) {
			out = append(out, fmt.Sprint(m))
		}
	}
	return out
}

func (w *wire) result(id string) mockserver.Result {
	w.t.Helper()
	result, err := w.server.Wait(w.t.Context(), id)
	require.NoError(w.t, err)
	return result
}

func planOf(rest string) mockserver.Run {
	return mockserver.Run{Plan: json.RawMessage(`{"id":"r1","jobs":[{"id":"a","body":"x"},{"id":"b","body":"y"}]` + rest + `}`), Queue: "manual"}
}

// onWire runs the test in a bubble with a wire.
func onWire(t *testing.T, test func(t *testing.T, w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWire(t, mockserver.Config{})) })
}

func success(context.Context, *Run) (any, error) { return map[string]int{"n": 1}, nil }

// fail makes the server misbehave.
func (w *wire) fail(r fault.Rule) {
	w.t.Helper()
	_, err := w.server.AddFault(r)
	require.NoError(w.t, err)
}

// pushes returns how often the event came, whatever became of it.
func (w *wire) pushes(id, name string) int {
	w.t.Helper()
	record, ok := w.server.Inspect(id)
	require.True(w.t, ok)
	n := 0
	for _, e := range record.Events {
		if e.Event == name {
			n++
		}
	}
	return n
}

// entry is a line that the server took, alone or in a batch.
type entry struct {
	RunID   string `json:"run_id"`
	StepID  string `json:"step_id"`
	Message []any
}

// lines returns the run's log, and how many lines there were in each batch.
func (w *wire) lines(id string) (lines []entry, batches []int) {
	w.t.Helper()
	record, ok := w.server.Inspect(id)
	require.True(w.t, ok)
	for _, e := range record.Events {
		if e.Status != "ok" {
			continue
		}
		switch e.Event {
		case "run:log":
			var line entry
			require.NoError(w.t, json.Unmarshal(e.Payload, &line))
			require.Equal(w.t, id, line.RunID)
			lines = append(lines, line)
		case "run:batch_logs":
			var batch struct {
				RunID string `json:"run_id"`
				Logs  []entry
			}
			require.NoError(w.t, json.Unmarshal(e.Payload, &batch))
			require.Equal(w.t, id, batch.RunID)
			lines = append(lines, batch.Logs...)
			batches = append(batches, len(batch.Logs))
		}
	}
	return lines, batches
}

func (w *wire) messages(id string) (messages []string, batches []int) {
	lines, batches := w.lines(id)
	for _, line := range lines {
		messages = append(messages, fmt.Sprint(line.Message...))
	}
	return messages, batches
}

// hasAll asserts that the server has a whole run of twoSteps, and that the worker says so.
func (w *wire) hasAll(r *Runner, outcome Outcome) {
	w.t.Helper()
	require.NoError(w.t, outcome.Err)
	require.Equal(w.t, Processed, outcome.Settled)
	require.Equal(w.t, string(outcome.Reason), w.result("r1").Reason)
	require.Equal(w.t, "success", w.result("r1").Reason)
	require.NotEmpty(w.t, w.events("r1", "run:start"))
	require.Len(w.t, w.events("r1", "step:start"), 2)
	require.Len(w.t, w.events("r1", "run:complete"), 1)
	require.Contains(w.t, w.logged("r1"), "hello")
	for _, step := range w.events("r1", "step:complete") {
		require.NotEmpty(w.t, step["output_dataclip"])
	}
	require.Len(w.t, w.events("r1", "step:complete"), 2)
	require.Empty(w.t, r.Stats().Undelivered)
}

// booksAgree holds what the worker says of a run of twoSteps to what the server has: each
// event was acknowledged or is counted as undelivered by its name, and the run is
// processed only if its end is there.
func (w *wire) booksAgree(r *Runner, outcome Outcome) {
	w.t.Helper()
	has := make(map[string]int)
	for _, event := range runEvents {
		distinct := make(map[string]bool)
		for _, e := range w.events("r1", event) {
			if e["level"] != "warn" { // such a line is the worker's own, about what it had to leave out
				distinct[fmt.Sprint(e["step_id"], e["message"], e["reason"])] = true
			}
		}
		has[event] = len(distinct)
	}
	if outcome.Settled == Processed {
		require.Equal(w.t, string(outcome.Reason), w.result("r1").Reason)
	}
	made := map[string]int{"run:start": 1, "step:start": 2, "run:log": 2, "step:complete": 2, "run:complete": 1}
	if outcome.Reason == Exception { // something could not be fetched
		made = map[string]int{"run:log": 2, "run:complete": 1}
	}
	for _, event := range runEvents {
		undelivered := int(r.Stats().Undelivered[event])
		require.Equal(w.t, made[event], has[event]+undelivered, "%s: %d at the server, %d undelivered", event, has[event], undelivered)
	}
	require.Equal(w.t, has["run:complete"] == 1, outcome.Settled == Processed && outcome.Err == nil, "%v", outcome)
}

var runEvents = []string{"run:start", "step:start", "run:log", "step:complete", "run:complete"}

func count(list []string, of string) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s != of }))
}

func numbers(from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, strconv.Itoa(i))
	}
	return texts
}

// counts logs numbers, with a step in their midst and a pause at the end.
func counts(_ context.Context, run *Run) (any, error) {
	for i := range 12 {
		run.Print(i)
	}
	step := run.StartStep("a", nil)
	for i := 12; i < 20; i++ {
		step.Log(TextLine("info", "JOB", fmt.Sprint(i)))
	}
	step.Complete(StepResult{State: json.RawMessage(`{}`), Leaf: true})
	time.Sleep(time.Minute)
	run.Print(20)
	return nil, nil
}

// twoSteps is an engine that reports two jobs, the second on the output of the
// first.
func twoSteps(_ context.Context, run *Run) (any, error) {
	a := run.StartStep("a", nil)
	a.Log(TextLine("info", "JOB", "hello"))
	memory := Memory{Job: 1, System: 2}
	a.Complete(StepResult{State: json.RawMessage(`{"data":{"x":1}}`), Duration: time.Millisecond, Memory: memory, ThreadID: "1"})
	b := run.StartStep("b", a)
	b.Complete(StepResult{State: json.RawMessage(`{"data":{"x":2}}`), Leaf: true, Duration: time.Millisecond, Memory: memory, ThreadID: "1"})
	return json.RawMessage(`{"data":{"x":2}}`), nil
}

// fetching is a run of which there is everything to fetch.
func fetching() mockserver.Run {
	return mockserver.Run{
		Plan:        json.RawMessage(`{"id":"r1","dataclip_id":"d","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
		Dataclip:    json.RawMessage(`{"data":{}}`),
		Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"k":"v"}`)},
	}
}

// readSpool returns what lies in a spool folder, by name, and what is wrong with the rest.
func readSpool(dir string) (all []delivery.Spooled, err error) {
	for spooled, wrong := range delivery.EachSpooled(dir) {
		if err = errors.Join(err, wrong); wrong == nil {
			all = append(all, *spooled)
		}
	}
	return all, err
}

// outbox claims a run, joins its topic, and returns an outbox for it.
func (w *wire) outbox(given claim.Run, permit delivery.Permit) (*delivery.Outbox, *channel.Topic) {
	w.t.Helper()
	run := planOf("")
	run.Credentials = map[string]json.RawMessage{"c": json.RawMessage(`{"k":"v"}`)}
	given.ID, given.Token = w.claim(run)
	topic, err := w.socket.Join(w.t.Context(), "run:"+given.ID, terms.New(nil, nil).JoinPayload(given.Token))
	require.NoError(w.t, err)
	log := slog.New(slog.DiscardHandler)
	return delivery.New(delivery.Config{}, log).Open(given, permit, log), topic
}
