package toxic

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled)
	const proxy = "github.com/Shopify/toxiproxy/v2"
	// The proxy itself leaves goroutines behind when a toxic is taken off a
	// connection that has just ended.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(proxy+".(*ToxicLink).read"),
		goleak.IgnoreAnyFunction(proxy+"/toxics.(*ToxicStub).Run"))
}

const (
	runs  = 60
	lines = 4
	// badWeather is how long the network misbehaves, patience how long the runs
	// may take altogether.
	badWeather = 6 * time.Second
	patience   = 28 * time.Second
)

// allToxics are one of each kind.
var allToxics = []string{
	`{"type":"latency","attributes":{"latency":80,"jitter":60}}`,
	`{"type":"slicer","attributes":{"average_size":50,"size_variation":30,"delay":100}}`,
	`{"type":"reset_peer","attributes":{"timeout":50}}`,
	`{"type":"timeout","attributes":{"timeout":300}}`,
	`{"type":"limit_data","attributes":{"bytes":3000}}`,
}

// A network that delays, slices, swallows and resets costs no run that a worker
// has joined, and no order.
func TestANetworkThatMisbehavesCostsNoRun(t *testing.T) {
	tests := []struct {
		name   string
		toxics []string
	}{
		{name: "latency", toxics: []string{`{"type":"latency","attributes":{"latency":150,"jitter":100}}`}},
		{name: "slices", toxics: []string{`{"type":"slicer","attributes":{"average_size":7,"size_variation":5,"delay":200}}`}},
		{name: "resets", toxics: []string{`{"type":"reset_peer","attributes":{"timeout":80}}`}},
		{name: "black holes", toxics: []string{`{"type":"timeout","attributes":{"timeout":700}}`}},
		{name: "thin and cut off", toxics: []string{`{"type":"bandwidth","attributes":{"rate":5}}`, `{"type":"limit_data","attributes":{"bytes":1500}}`}},
		{name: "all of it", toxics: allToxics},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // they wait, most of the time
			seed := seedOf(t)
			n := newNetwork(t)
			stop := n.hire()
			n.misbehave(rand.New(rand.NewPCG(seed, 1)), tt.toxics)
			lost := n.await()
			require.NoError(t, stop())
			for i := range runs {
				n.check(fmt.Sprint("r", i))
			}
			t.Logf("%d of %d runs were lost with the reply to their claim", lost, runs)
		})
	}
}

// seedOf is the TOXIC_SEED of the environment, or one of its own for each test, which it logs.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("TOXIC_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("the same weather again: TOXIC_SEED=%d", seed)
	return seed
}

// network is a server and the bad way to it.
type network struct {
	t      *testing.T
	server *mockserver.Server
	proxy  *toxiproxy.Proxy
}

func newNetwork(t *testing.T) *network {
	server, err := mockserver.Start(mockserver.Config{OpaqueTokens: true})
	require.NoError(t, err)
	upstream := strings.TrimPrefix(server.HTTPURL(), "http://")
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(api, t.Name(), "127.0.0.1:0", upstream)
	require.NoError(t, proxy.Start())
	t.Cleanup(func() {
		proxy.Stop()
		require.NoError(t, server.Close())
	})
	return &network{t: t, server: server, proxy: proxy}
}

// hire starts a worker and returns what stops it.
func (n *network) hire() (stop func() error) {
	worker, err := phxworker.New(phxworker.Config{
		URL: "ws://" + n.proxy.Listen + "/worker", Secret: n.server.Secret(), Groups: slots.MustParse("manual>*:12"),
		Claim: phxworker.Claim{MinBackoff: 50 * time.Millisecond}, Engine: phxworker.Func(execute),
		Logger: slog.New(slog.NewTextHandler(n.t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	})
	require.NoError(n.t, err)
	for i := range runs {
		plan := fmt.Sprintf(`{"id":"r%d","jobs":[{"id":"j","body":"x"}]}`, i)
		_, err := n.server.Enqueue(mockserver.Run{Plan: json.RawMessage(plan)})
		require.NoError(n.t, err)
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func execute(ctx context.Context, run *phxworker.Run) (any, error) {
	step := run.StartStep("j", nil)
	for i := range lines {
		step.Log(runner.TextLine("info", "JOB", fmt.Sprint(i)))
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	step.Complete(runner.StepResult{State: json.RawMessage(`{"big":"` + strings.Repeat("x", 2000) + `"}`), Leaf: true})
	return map[string]string{"ran": run.ID}, nil
}

// misbehave lets toxics come and go, up the stream and down, for a while.
func (n *network) misbehave(rng *rand.Rand, toxics []string) {
	ctx, cancel := context.WithTimeout(n.t.Context(), badWeather)
	defer cancel()
	for ctx.Err() == nil {
		n.addToxic(rng, toxics)
		wait(ctx, time.Duration(100+rng.IntN(500))*time.Millisecond)
		n.proxy.Toxics.ResetToxics(n.t.Context())
		wait(ctx, time.Duration(rng.IntN(300))*time.Millisecond)
	}
}

// addToxic puts one of the toxics up the stream, or down.
func (n *network) addToxic(rng *rand.Rand, toxics []string) {
	toxic := toxics[rng.IntN(len(toxics))]
	stream := []string{"upstream", "downstream"}[rng.IntN(2)]
	_, err := n.proxy.Toxics.AddToxicJson(strings.NewReader(`{"stream":"` + stream + `",` + toxic[1:]))
	require.NoError(n.t, err)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// await returns when every run is over, or was given away to nobody, and how
// many those were.
func (n *network) await() (lost int) {
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		lost, open := 0, 0
		for i := range runs {
			record, _ := n.server.Inspect(fmt.Sprint("r", i))
			switch {
			case record.State.Final():
			case record.State == "claimed" && len(record.Events) == 0 && time.Since(record.ClaimedAt) > 5*time.Second:
				lost++
			default:
				open++
			}
		}
		if open == 0 {
			return lost
		}
		wait(ctx, 50*time.Millisecond)
	}
	n.t.Fatalf("runs did not end: %+v", n.server.Stats())
	return 0
}

// check holds a run to one of each event, all in order.
func (n *network) check(id string) {
	record, ok := n.server.Inspect(id)
	require.True(n.t, ok)
	if len(record.Events) == 0 {
		return // the reply to its claim was lost
	}
	require.JSONEq(n.t, `{"ran":"`+id+`"}`, string(record.FinalState))
	n.checkEvents(id, record, "step:start", "step:complete", "run:complete")
}

// checkEvents holds a run to a success, with one of each of these events, in
// order, and all of its lines.
func (n *network) checkEvents(id string, record mockserver.RunRecord, wanted ...string) {
	require.Equal(n.t, "success", record.Reason, "%s: %s %s", id, record.ErrorType, record.ErrorMessage)
	var names []string
	next := 0
	for _, e := range record.Events {
		var line struct {
			Message []any
			Source  string
		}
		switch {
		case e.Status != "ok" || strings.HasPrefix(e.Event, "fetch:") || e.Event == "run:start":
		case e.Event != "run:log":
			names = append(names, e.Event)
		case json.Unmarshal(e.Payload, &line) == nil && line.Source == "JOB" && fmt.Sprint(line.Message[0]) == fmt.Sprint(next):
			next++
		}
	}
	require.Equal(n.t, wanted, names, "%s; what struck it: %v", id, record.Faults)
	require.Equal(n.t, lines, next, "lines of %s in order; what struck it: %v", id, record.Faults)
}
