package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a mock Lightning, a worker, and a Prometheus that scrapes it over
// HTTP, all in memory and in fake time.
type house struct {
	t         *testing.T
	server    *mockserver.Server
	lightning *wstest.Listener
	worker    *phxworker.Worker
	processes atomic.Int64

	prometheus *http.Client

	mu   sync.Mutex
	held map[string]chan struct{} // runs that go on when they are released
}

// quiet is a server that wakes nobody unless told to.
var quiet = mockserver.Config{WakeDebounce: 24 * time.Hour, OpaqueTokens: true}

// open must be called inside a bubble. The worker's runs are named for what
// becomes of them; see house.execute.
func open(t *testing.T, server mockserver.Config, cfg phxworker.Config) *house {
	t.Helper()
	h := &house{t: t, held: make(map[string]chan struct{})}
	var err error
	h.server, err = mockserver.New(mocktest.Config(server))
	require.NoError(t, err)
	h.lightning = wstest.Serve(t, h.server)
	t.Cleanup(func() { require.NoError(t, h.server.Close()) })

	cfg.URL, cfg.Transport.NetDial, cfg.Secret = "ws://lightning.test/worker", h.lightning.DialContext, h.server.Secret()
	cfg.Engine = phxworker.Func(h.execute)
	h.worker, err = phxworker.New(cfg)
	require.NoError(t, err)

	listener := wstest.Serve(t, Handler(h.worker, Config{
		Processes: func() int { return int(h.processes.Load()) }, Version: "v1.2.3", Commit: "abcdef0",
	}))
	h.prometheus = &http.Client{Transport: &http.Transport{DialContext: listener.DialContext, DisableKeepAlives: true}}
	return h
}

// begin has the worker join and claim.
func (h *house) begin() {
	h.run()
	settle(time.Second)
}

// run has the worker run until the end of the test.
func (h *house) run() {
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.worker.Run(ctx)
	}()
	h.t.Cleanup(func() {
		h.mu.Lock()
		for _, release := range h.held {
			select {
			case <-release:
			default:
				close(release)
			}
		}
		h.mu.Unlock()
		cancel()
		<-ended
	})
}

// execute does what the first word of the run's id says.
func (h *house) execute(ctx context.Context, run *phxworker.Run) (any, error) {
	word, _, _ := strings.Cut(run.ID, "-")
	switch word {
	case "fail", "crash", "kill", "exception":
		return nil, &phxworker.Failure{Reason: phxworker.Reason(word), Type: "E", Message: "as it was told to"}
	case "panic":
		panic("as it was told to")
	case "says":
		run.Print("a line")
	case "shouts":
		run.Print(strings.Repeat("x", 2<<20))
	case "hold":
		select {
		case <-h.release(run.ID):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	case "deaf": // to the end of its time
		<-h.release(run.ID)
	}
	return map[string]string{"ran": run.ID}, nil
}

// release is closed when the run may end.
func (h *house) release(id string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[id] == nil {
		h.held[id] = make(chan struct{})
	}
	return h.held[id]
}

func (h *house) enqueue(queue string, ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		plan := fmt.Sprintf(`{"id":%q,"jobs":[{"id":"j","body":"fn(s => s)"}]}`, id)
		_, err := h.server.Enqueue(mockserver.Run{Plan: json.RawMessage(plan), Queue: queue})
		require.NoError(h.t, err)
	}
}

func (h *house) fail(rule fault.Rule) {
	h.t.Helper()
	_, err := h.server.AddFault(rule)
	require.NoError(h.t, err)
}

// scrape returns what Prometheus sees.
func (h *house) scrape() scrape {
	h.t.Helper()
	text, err := h.fetch()
	require.NoError(h.t, err)
	return read(h.t, text)
}

func (h *house) fetch() (text string, err error) {
	resp, err := h.prometheus.Get("http://worker.test/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// scrape is an answer in Prometheus' text format.
type scrape struct {
	families map[string]*dto.MetricFamily
	samples  map[string]float64 // by the line without its value
}

// read fails the test where Prometheus would refuse the text, or one of two series
// alike.
func read(t *testing.T, text string) scrape {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	s := scrape{families: families, samples: make(map[string]float64)}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		require.NoError(t, err)
		require.NotContains(t, s.samples, line[:at], "twice")
		s.samples[line[:at]] = value
	}
	return s
}

// expect asserts samples, and the sum of all of the metric where the name ends
// in a *.
func (h *house) expect(want map[string]float64) {
	h.t.Helper()
	got := h.scrape()
	for name, value := range want {
		if start, ok := strings.CutSuffix(name, "*"); ok {
			sum := 0.0
			for sample, n := range got.samples {
				if strings.HasPrefix(sample, start+"{") || sample == start {
					sum += n
				}
			}
			require.InDelta(h.t, value, sum, 1e-9, name)
			continue
		}
		require.Contains(h.t, got.samples, name)
		require.InDelta(h.t, value, got.samples[name], 1e-9, name)
	}
}

// settle waits until nothing moves any more without time passing, then lets time
// pass.
func settle(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

func (h *house) state(id string) string {
	h.t.Helper()
	record, ok := h.server.Inspect(id)
	require.True(h.t, ok)
	return string(record.State)
}
