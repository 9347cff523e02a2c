package report

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ingest is Sentry's endpoint. It returns the DSN of a project, and the envelopes
// that come.
func ingest(t *testing.T) (dsn string, envelopes <-chan string) {
	t.Helper()
	received := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/api/7/envelope/" && r.Method == http.MethodPost {
			received <- string(body)
		}
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "http://", "http://dsn-key:dsn-secret@", 1) + "/7", received
}

func newReporter(t *testing.T, cfg Config) *Reporter {
	t.Helper()
	r, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// payload returns the event of an envelope: what comes after its header, which
// says where the envelope goes, and the header of its first item.
func payload(t *testing.T, envelope string) (text string, event map[string]any) {
	t.Helper()
	rows := strings.SplitN(envelope, "\n", 4)
	require.Contains(t, rows[1], `"type":"event"`)
	require.NoError(t, json.Unmarshal([]byte(rows[2]), &event))
	return strings.Join(rows[1:], "\n"), event
}

func TestErrorsBecomeEvents(t *testing.T) {
	dsn, envelopes := ingest(t)
	r := newReporter(t, Config{DSN: dsn, Environment: "production", Release: "v1.2.3", Server: "pod-1"})
	log := slog.New(r.Handler())
	log.Warn("only a warning")
	log.With("run_id", "r-1").WithGroup("claim").Error("cannot join the run", "group", "manual>*", slog.Group("times", "n", 3))
	log.Error("a claim loop ended", "error", errors.New("refused"), "topic", "worker:queue")
	r.Close()

	require.Len(t, envelopes, 2)
	_, first := payload(t, <-envelopes)
	require.Equal(t, "cannot join the run", first["message"])
	require.Equal(t, "error", first["level"])
	require.Equal(t, "production", first["environment"])
	require.Equal(t, "v1.2.3", first["release"])
	require.Equal(t, "pod-1", first["server_name"])
	require.Equal(t, map[string]any{"run_id": "r-1"}, first["tags"])
	require.Equal(t, map[string]any{"run_id": "r-1", "claim.group": "manual>*", "claim.times.n": "3"}, first["contexts"].(map[string]any)["log"])
	_, second := payload(t, <-envelopes)
	require.Equal(t, []any{map[string]any{"type": "a claim loop ended", "value": "refused"}}, second["exception"])
	require.Equal(t, map[string]any{"topic": "worker:queue"}, second["tags"])
}

func TestNothingSecretIsReported(t *testing.T) {
	t.Setenv("SENTRY_TAGS_SECRET", "from-the-environment")
	t.Setenv("SENTRY_ENVIRONMENT", "from-the-environment")
	dsn, envelopes := ingest(t)
	const runToken = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJydW4ifQ.c2lnbmF0dXJl"
	r := newReporter(t, Config{DSN: dsn, Environment: "dev", Release: "v1", Hide: []string{"worker-secret", "", "http-token"}})
	log := slog.New(r.Handler()).With("server", "wss://me:password@lightning.test/worker?token=query-token&vsn=2.0.0")
	log.Error("not connected", "error", errors.New(`dial "wss://lightning.test/worker/websocket?token=`+runToken+`": bad handshake`))
	log.Error("no", "output", "worker-secret and http-token, token "+runToken+", "+dsn)
	r.Close()

	host, err := os.Hostname()
	require.NoError(t, err)
	require.Len(t, envelopes, 2)
	for range 2 {
		text, event := payload(t, <-envelopes)
		for _, secret := range []string{
			"worker-secret", "http-token", "query-token", "password", "eyJ", "c2lnbmF0dXJl", "dsn-key", "dsn-secret", "from-the-environment", host,
		} {
			require.NotContains(t, text, secret)
		}
		for _, key := range []string{"request", "user", "modules", "server_name", "breadcrumbs"} {
			require.NotContains(t, event, key)
		}
		contexts := event["contexts"].(map[string]any)
		require.Equal(t, "wss://lightning.test/worker", contexts["log"].(map[string]any)["server"])
		delete(contexts, "log")
		delete(contexts, "trace") // a random id
		require.Empty(t, contexts)
	}
}

func TestScrubbing(t *testing.T) {
	s := newScrubber([]string{"abc", "abcdef"})
	require.Equal(t, "*** ***", s.text("abcdef abc"))
	require.Equal(t, "https://a.test/x and ws://b.test", s.text("https://u:p@a.test/x?q=1#f and ws://b.test#t"))
	require.Equal(t, "is it so? yes", s.text("is it so? yes"))
	long := s.text(strings.Repeat("ä", longest))
	require.LessOrEqual(t, len(long), longest+len("…"))
	require.True(t, strings.HasSuffix(long, "ä…"))
}

// Guards against a worker that waits for Sentry, and against events that pile up.
func TestADeadSentryHoldsNothingUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	require.NoError(t, err)
	defer listener.Close()
	r := newReporter(t, Config{DSN: "http://key@" + listener.Addr().String() + "/1", Release: "v1"})
	log := slog.New(r.Handler())
	before := heap()
	for i := range 6_000 {
		log.Error("lost", "n", i, "ballast", strings.Repeat("x", longest))
	}
	require.Less(t, heap(), before+32<<20, "of 50 MB of events, few are kept")
	ended := make(chan struct{})
	go func() {
		r.Close()
		r.Close()
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), requestTime-time.Second)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
		require.FailNow(t, "Close waits for Sentry's answer")
	}
	log.Error("after the end, and to nobody")
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestNewRefusesWhatIsNoDSN(t *testing.T) {
	t.Setenv("SENTRY_DSN", "https://key@sentry.test/1") // which is not ours
	for _, dsn := range []string{"", "https://hidden-key@sentry.test", "http://hidden-key:%zz@x/1", "hidden-key"} {
		_, err := New(Config{DSN: dsn, Release: "v1"})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hidden-key")
	}
}

func TestHandlersShareNothing(t *testing.T) {
	with := func(h *handler, key string) *handler { return h.WithAttrs([]slog.Attr{slog.Int(key, 1)}).(*handler) }
	base := with(with(with(&handler{}, "a"), "b"), "c")
	one, two := with(base, "d"), with(base, "e")
	require.Equal(t, "d", one.attrs[3].Key)
	require.Equal(t, "e", two.attrs[3].Key)
}
