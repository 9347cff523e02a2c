package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// lines returns what was written, one object a line, and empties out.
func lines(t *testing.T, out *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for row := range bytes.Lines(out.Bytes()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(row, &fields))
		all = append(all, fields)
	}
	out.Reset()
	return all
}

func newLog() (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slog.New(Limit(slog.NewJSONHandler(&out, nil))), &out
}

func TestLimitIsAHandler(t *testing.T) {
	var out *bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out = new(bytes.Buffer)
		return Limit(slog.NewJSONHandler(out, nil))
	}, func(t *testing.T) map[string]any { return lines(t, out)[0] })
}

func TestLimitWritesARepeatedLineOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog()
		for i := range 90 { // one a second
			log.Warn("not connected", "error", errors.New("refused"), "in", time.Duration(i)*time.Second)
			time.Sleep(time.Second)
		}
		written := lines(t, out)
		require.Len(t, written, 2)
		require.NotContains(t, written[0], "repeated")
		require.EqualValues(t, 59, written[1]["repeated"])
		require.EqualValues(t, time.Minute, written[1]["in"], "the line itself is the latest")

		time.Sleep(time.Hour)
		log.Warn("not connected", "error", errors.New("refused"))
		require.EqualValues(t, 29, lines(t, out)[0]["repeated"])
		time.Sleep(time.Hour)
		log.Warn("not connected", "error", errors.New("refused"))
		require.NotContains(t, lines(t, out)[0], "repeated", "each line is counted once")
	})
}

// Guards against lines that nobody hears of: claims that were lost in the last minute of a worker, or one by one.
func TestFlushWritesWhatWasLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog()
		log.Warn("written once")
		for n := range 4 {
			log.With("group", "a").Warn("not answered", "n", n)
			time.Sleep(time.Second)
		}
		log.Warn("twice")
		log.Warn("twice")
		require.Len(t, lines(t, out), 3)
		Flush(log.Handler())
		written := lines(t, out)
		require.Len(t, written, 2)
		require.Equal(t, []any{"not answered", "a", 3., 2.}, []any{written[0]["msg"], written[0]["group"], written[0]["n"], written[0]["repeated"]}, "the latest, and how many were left out before")
		require.Equal(t, "twice", written[1]["msg"])
		require.NotContains(t, written[1], "repeated")
		Flush(log.Handler())
		require.Empty(t, lines(t, out), "each line is counted once")
	})
}

func TestLimitTellsLinesApart(t *testing.T) {
	first := func(log *slog.Logger) { log.Warn("refused", "group", "a", "error", errors.New("no")) }
	tests := []struct {
		name   string
		second func(*slog.Logger)
		both   bool
	}{
		{"the same", first, false},
		{"other number", func(log *slog.Logger) { log.Warn("refused", "group", "a", "error", errors.New("no"), "n", 7) }, false},
		{"attributes of the logger", func(log *slog.Logger) { log.With("group", "a").Warn("refused", "error", errors.New("no")) }, false},
		{"other level", func(log *slog.Logger) { log.Error("refused", "group", "a", "error", errors.New("no")) }, true},
		{"other message", func(log *slog.Logger) { log.Warn("lost", "group", "a", "error", errors.New("no")) }, true},
		{"other error", func(log *slog.Logger) { log.Warn("refused", "group", "a", "error", errors.New("never")) }, true},
		{"other group", func(log *slog.Logger) { log.Warn("refused", "group", "b", "error", errors.New("no")) }, true},
		{"of a run", func(log *slog.Logger) { log.Warn("refused", "group", "a", "error", errors.New("no"), "run_id", "r") }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log, out := newLog()
			first(log)
			tt.second(log)
			require.Equal(t, tt.both, len(lines(t, out)) == 2)
		})
	}
}

func TestLimitLetsARunTellItsStory(t *testing.T) {
	log, out := newLog()
	for range 3 {
		log.Info("claimed")
		log.Error("no answer", "run_id", "r1")
		log.With("run_id", "r2").WithGroup("step").Warn("no answer")
	}
	require.Len(t, lines(t, out), 9)
}

func TestLimitBoundsItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog()
		for i := range 3 * most {
			log.Warn("lost", "error", fmt.Errorf("number %d", i))
		}
		require.Len(t, lines(t, out), 3*most, "what does not fit is written")
		seen := log.Handler().(*limiter).seen
		require.Len(t, seen.lines, most)

		time.Sleep(every)
		log.Warn("lost", "error", errors.New("later"))
		require.Len(t, seen.lines, 1, "what is over is forgotten")
	})
}

func TestLimitIsUsedConcurrently(t *testing.T) {
	log, out := newLog()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			mine := log.With("n", i)
			for range 100 {
				mine.Warn("lost")
			}
		})
	}
	all.Wait()
	require.Len(t, lines(t, out), 1)
}

// The baseline is a line that is written.
func BenchmarkLimit(b *testing.B) {
	out := slog.NewJSONHandler(io.Discard, nil) //nolint:sloglint // its work is the baseline
	for name, handler := range map[string]slog.Handler{"repeated line": Limit(out), "baseline": out} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			log := slog.New(handler).With("group", "manual>*")
			err := errors.New("refused")
			for b.Loop() {
				log.Warn("not connected", "error", err, "in", time.Second)
			}
		})
	}
}
