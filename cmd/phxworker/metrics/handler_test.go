package metrics

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// Scrapes read what the worker writes at the same time; so not in fake time, in
// which a run takes none.
func TestScrapesWhileRunsComeAndGo(t *testing.T) {
	h := open(t, mockserver.Config{WakeDebounce: -1, OpaqueTokens: true}, phxworker.Config{Groups: slots.MustParse("fast_lane:2 manual>*:20")})
	h.run()
	var each uint64 = 100
	if testing.Short() {
		each = 25
	}
	var scrapers sync.WaitGroup
	texts, errs := make([][]string, maxScrapes), make([]error, maxScrapes)
	over := make(chan struct{})
	for n := range maxScrapes {
		scrapers.Go(func() {
			for errs[n] == nil {
				var text string
				text, errs[n] = h.fetch()
				texts[n] = append(texts[n], text)
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	for n := range each {
		for _, word := range []string{"ok", "fail", "says", "panic"} {
			h.enqueue("manual", fmt.Sprint(word, "-", n))
		}
	}
	require.Eventually(t, func() bool { return h.worker.Stats().Times.Run.Count == 4*each }, 5*time.Minute, time.Millisecond)
	close(over)
	scrapers.Wait()
	for n := range maxScrapes {
		require.NoError(t, errs[n])
		before := map[string]float64{}
		for _, text := range texts[n] {
			now := read(t, text).samples
			for name, value := range before {
				if now[name] < value {
					t.Errorf("%s went from %v to %v", name, value, now[name])
				}
			}
			maps.DeleteFunc(now, func(name string, _ float64) bool { return !counts.MatchString(name) })
			before = now
		}
	}
	h.expect(map[string]float64{`phxworker_runs_total{reason="success"}`: float64(2 * each), `phxworker_engine_panics_total`: float64(each), `phxworker_runs_total*`: float64(4 * each)})
}

// counts are series that never go down.
var counts = regexp.MustCompile(`^phxworker_\w+_(total|count|bucket)\b`)

// fixed has the same numbers always.
type fixed phxworker.Stats

func (f fixed) Stats() phxworker.Stats { return phxworker.Stats(f) }

// hanging has no numbers until it is closed.
type hanging chan struct{}

func (h hanging) Stats() phxworker.Stats {
	<-h
	return phxworker.Stats{}
}

// Whatever a snapshot says, Prometheus gets something that it can read.
func TestNoSnapshotMakesAScrapeFail(t *testing.T) {
	odd := phxworker.Histogram{Count: 1, Sum: math.NaN()}
	tests := []struct {
		name  string
		stats phxworker.Stats
	}{
		{name: "nothing"},
		{name: "a group without a name", stats: phxworker.Stats{Groups: make([]phxworker.GroupStats, 1)}},
		{name: "names that are no text", stats: phxworker.Stats{
			Groups:     []phxworker.GroupStats{{Name: "\xff"}, {Name: "quoted\"\n\\"}},
			Ended:      map[phxworker.Reason]int{"\xff\xfe": 1},
			Connection: phxworker.ConnectionStats{Lost: map[channel.Cause]uint64{"\x80": 2}},
		}},
		{name: "reasons and causes nobody knows", stats: phxworker.Stats{
			Ended:      map[phxworker.Reason]int{"": 1, "bored": 2, runner.Success: 3},
			Connection: phxworker.ConnectionStats{Lost: map[channel.Cause]uint64{"": 1, "moths": 2}},
		}},
		{name: "histograms that do not add up", stats: phxworker.Stats{Times: phxworker.TimeStats{Run: odd, ClaimToStart: odd}, Groups: []phxworker.GroupStats{{Name: "a", Stats: claim.Stats{Answered: odd}}}}},
		{name: "less than nothing", stats: phxworker.Stats{
			Undelivered: -1, Ended: map[phxworker.Reason]int{runner.Fail: -1}, Delivery: runner.Stats{StuckNow: -1},
			Runs: []phxworker.RunStats{{Progress: runner.Progress{Claimed: time.Now().Add(time.Hour), Unacknowledged: -3}}, {}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source, cfg := fixed(tt.stats), Config{Version: "\xff"}
			registry := prometheus.NewRegistry()
			registry.MustRegister(NewCollector(source, cfg))
			_, err := registry.Gather()
			require.NoError(t, err)
			response := get(Handler(source, cfg))
			require.Equal(t, http.StatusOK, response.Code)
			require.Contains(t, read(t, response.Body.String()).samples, `phxworker_runs_total{reason="kill"}`)
		})
	}
}

func get(handler http.Handler) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return recorder
}

func TestScrapesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(hanging)
		handler := Handler(hangs, Config{})
		codes := make(chan int, maxScrapes)
		begin := time.Now()
		for range maxScrapes {
			go func() { codes <- get(handler).Code }()
		}
		synctest.Wait()
		require.Equal(t, http.StatusServiceUnavailable, get(handler).Code, "one more than it takes")
		require.Zero(t, time.Since(begin))
		for range maxScrapes {
			require.Equal(t, http.StatusServiceUnavailable, <-codes)
		}
		require.Equal(t, scrapeTimeout, time.Since(begin))
		close(hangs)
		synctest.Wait()
		require.Equal(t, http.StatusOK, get(handler).Code)
	})
}

// broken is a collector of somebody else's that cannot collect.
type broken struct{}

func (broken) Describe(descs chan<- *prometheus.Desc) {
	descs <- prometheus.NewDesc("broken", "None.", nil, nil)
}

func (broken) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "None.", nil, nil), errors.New("no such file"))
}

func TestWhatCannotBeCollectedIsLeftOutAndLogged(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(fixed{}, Config{}), broken{})
	var log strings.Builder
	response := get(handlerOf(registry, slog.New(slog.NewTextHandler(&log, nil))))
	require.Equal(t, http.StatusOK, response.Code)
	require.Contains(t, response.Body.String(), "phxworker_connected 0")
	require.Contains(t, log.String(), "no such file")
	require.Contains(t, log.String(), "level=ERROR")
}

// Two workers in one process, as in a test of a program that embeds them.
func TestRegistriesShareNothing(t *testing.T) {
	before, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, version := range []string{"one", "two"} {
		body, err := io.ReadAll(get(Handler(fixed{}, Config{Version: version})).Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `version="`+version+`"`)
	}
	after, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	require.Len(t, after, len(before))
}
