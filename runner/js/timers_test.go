package js

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

func TestTimers(t *testing.T) {
	tests := []struct {
		name, body, want string
		took             time.Duration
	}{
		{name: "in order of time, then of start", body: `fn(() => new Promise(r => { const l = []; for (const [n, ms] of [['c', 9], ['a', 3], ['b', 3]]) setTimeout(x => { l.push(x); if (l.length === 3) r({ l }); }, ms, n); }))`, want: `{"l":["a","b","c"]}`, took: 9 * time.Millisecond},
		{name: "long", body: `fn(() => new Promise(r => setTimeout(r, 2e5, { ok: 1 })))`, want: `{"ok":1}`, took: 200 * time.Second},
		{name: "cleared", body: `fn(() => new Promise(r => { const t = setTimeout(r, 5, { no: 1 }); clearTimeout(t); clearTimeout(t); clearTimeout(undefined); clearTimeout({}); setTimeout(r, 50, { ok: 1 }); }))`, want: `{"ok":1}`, took: 50 * time.Millisecond}, //nolint:dupword // as it must be
		{name: "cleared by its number", body: `fn(() => new Promise(r => { clearTimeout(+setTimeout(r, 5, { no: 1 })); setTimeout(r, 6, { ok: 1 }); }))`, want: `{"ok":1}`, took: 6 * time.Millisecond},
		{name: "interval", body: `fn(() => new Promise(r => { let n = 0; const t = setInterval(() => { if (++n === 3) { clearInterval(t); setTimeout(r, 100, { n }); } }, 10); }))`, want: `{"n":3}`, took: 130 * time.Millisecond},
		{name: "microtasks before timers", body: `fn(() => new Promise(r => { const l = []; setTimeout(() => { l.push('timer'); Promise.resolve().then(() => l.push('its microtask')); }); setTimeout(() => { l.push('next'); r({ l }); }); Promise.resolve().then(() => l.push('promise')); }))`, want: `{"l":["promise","timer","its microtask","next"]}`, took: time.Millisecond},
		{name: "pending at the end", body: `fn(s => { setTimeout(() => console.log('late'), 1e6); setInterval(() => {}, 1); return { ok: 1 }; })`, want: `{"ok":1}`},
		{name: "many, cleared", body: `fn(() => new Promise(r => { const l = []; for (let i = 0; i < 2e4; i++) l.push(setTimeout(r, 5 + i % 7, { no: 1 })); l.forEach(clearTimeout); setTimeout(r, 20, { ok: 1 }); }))`, want: `{"ok":1}`, took: 20 * time.Millisecond},
		{name: "many rejections, handled", body: `fn(async () => ({ n: (await Promise.allSettled(Array.from({ length: 2e4 }, async () => { throw 1; }))).length }))`, want: `{"n":20000}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := runtest.New(t, New(Config{}))
				begin := time.Now()
				record := w.Run(t.Context(), runner.Limits{}, runtest.OneJob(tt.body))
				require.Equal(t, "success", record.Reason, record.ErrorMessage)
				require.JSONEq(t, tt.want, string(record.FinalState))
				require.Equal(t, tt.took, time.Since(begin))
				require.Empty(t, runtest.Lines(t, record, "JOB"))
			})
		})
	}
}

func TestTheTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := runtest.New(t, New(Config{})).Run(t.Context(), runner.Limits{RunTimeout: 90 * time.Second}, runtest.OneJob(`fn(() => { console.log('waiting'); return new Promise(() => {}); })`))
		require.Equal(t, []string{"kill", "TimeoutError", "Workflow failed to return within 90000ms"}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
		require.Equal(t, []string{`"waiting"`}, runtest.Lines(t, record, "JOB"))
	})
}

// A worker that stops ends its runs; that is no fault of theirs.
func TestCancellation(t *testing.T) {
	for _, body := range []string{
		`fn(() => new Promise(r => setTimeout(r, 1e6)))`,
		`fn(() => new Promise(() => {}))`,
	} {
		t.Run(body, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				record := runtest.New(t, New(Config{})).Run(ctx, runner.Limits{}, runtest.OneJob(body))
				require.Equal(t, "cancel", record.Reason, record.ErrorMessage)
			})
		})
	}
}
