package js

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// A job can end its own run only, and only as it should end.
func TestHostileJobs(t *testing.T) {
	limits := runner.Limits{RunTimeout: 300 * time.Millisecond, MemoryMB: 32, StateMB: 8}
	tests := []struct {
		name         string
		body         string
		reason, kind string
		memoryMB     float64
	}{
		{name: "loop", body: `fn(() => { for (;;); })`, reason: "kill", kind: "TimeoutError"},
		{name: "loop that catches", body: `fn(() => { for (;;) try { for (;;); } catch {} })`, reason: "kill", kind: "TimeoutError"},
		{name: "loop at the top", body: `while (true);`, reason: "kill", kind: "TimeoutError"},
		{name: "never resolved", body: `fn(() => new Promise(() => {}))`, reason: "kill", kind: "TimeoutError"},
		{name: "never resolved at the top", body: `await new Promise(() => {});`, reason: "kill", kind: "TimeoutError"},
		{name: "microtasks without end", body: `fn(() => { const f = () => { Promise.resolve().then(f); }; f(); return new Promise(() => {}); })`, reason: "kill", kind: "TimeoutError"},
		{name: "async loop", body: `fn(async () => { for (;;) await null; })`, reason: "kill", kind: "TimeoutError"},
		{name: "timers without end", body: `fn(() => new Promise(() => { const f = () => setTimeout(f, 0); f(); }))`, reason: "kill", kind: "TimeoutError"},
		{name: "loop in a timer", body: `fn(() => new Promise(() => setTimeout(() => { for (;;); }, 1)))`, reason: "kill", kind: "TimeoutError"},
		{name: "regular expression", body: `fn(() => /(a+)+$/.test('a'.repeat(60) + 'b'))`, reason: "kill", kind: "TimeoutError"},
		{name: "sort without end", body: `fn(() => [3, 2, 1].sort(() => { for (;;); }))`, reason: "kill", kind: "TimeoutError"},
		{name: "long calls that allocate nothing", body: `fn(() => { const t = ' '.repeat(8e6); for (;;) t.trim(); })`, reason: "kill", kind: "TimeoutError"},
		{name: "loop in toJSON", body: `fn(() => ({ toJSON() { for (;;); } }))`, reason: "kill", kind: "TimeoutError"},
		{name: "loop in a getter of an error", body: `fn(() => { throw { get message() { for (;;); } }; })`, reason: "kill", kind: "TimeoutError"},
		{name: "loop in a logged value", body: `fn(() => console.log({ toJSON() { for (;;); } }))`, reason: "kill", kind: "TimeoutError"},
		{name: "search of nothing", body: `fn(() => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1))`, reason: "fail", kind: "RuntimeError"},
		{name: "each of nothing", body: `fn(() => Array.prototype.forEach.call({ length: 2 ** 53 - 1 }, () => {}))`, reason: "fail", kind: "RuntimeError"},
		{name: "each of nothing, whose length changes", body: `let n = 1; fn(() => Array.prototype.forEach.call({ get length() { return n *= 2 ** 52; } }, () => {}))`, reason: "fail", kind: "RuntimeError"},
		{name: "join of nothing", body: `fn(() => [].concat({ length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true }))`, reason: "fail", kind: "RuntimeError"},
		{name: "search of a long text in a longer one", body: `fn(() => 'a'.repeat(2 ** 22).includes('a'.repeat(2 ** 21) + 'b'))`, reason: "fail", kind: "RuntimeError"},
		{name: "a long text in the place of many", body: `fn(() => 'a'.repeat(1e6).replaceAll('a', 'b'.repeat(1e6)))`, reason: "kill", kind: "OOMError"},
		{name: "a long text in the place of many matches", body: `fn(() => 'a'.repeat(1e6).replace(/a/g, 'b'.repeat(1e6)))`, reason: "kill", kind: "OOMError"},
		{name: "a long pattern in the place of many", body: `fn(() => 'a'.repeat(1e6).replaceAll('a', '$&'.repeat(1e6)))`, reason: "fail", kind: "RuntimeError"},
		{name: "a long text in the place of one in a long text", body: `fn(() => { if (('x'.repeat(2e5) + 'a').replace(/a/g, 'b'.repeat(2e5)).length !== 4e5) throw new Error('wrong'); return {}; })`, reason: "success"},
		{name: "a mistake in a function that is bounded", body: `fn(s => s.data.list.map(5))`, reason: "fail", kind: "RuntimeError"},
		{name: "sparse array", body: `fn(() => { const a = []; a.length = 4294967295; return a.includes(1); })`, reason: "fail", kind: "RuntimeError"},
		{name: "raw text of nothing", body: `fn(() => String.raw({ raw: { length: 2 ** 50 } }))`, reason: "kill", kind: "TimeoutError"},
		{name: "raw text that fills the memory", body: `fn(() => String.raw({ raw: { length: 2 ** 50, 0: 'x'.repeat(2 ** 25) } }))`, reason: "kill", kind: "OOMError"},
		{name: "marks to be put in order", body: `fn(() => ('a' + '\u0301\u0323'.repeat(3e5)).normalize('NFC'))`, reason: "fail", kind: "RuntimeError"},
		{name: "what becomes marks to be put in order", body: `fn(() => ('a' + '\u0e33\u0e38'.repeat(3e5)).normalize('NFKC'))`, reason: "fail", kind: "RuntimeError"},
		{name: "marks of an object that changes", body: `let n = 0; fn(s => { String.prototype.normalize.call({ toString: () => n++ ? '\u0301\u0323'.repeat(3e5) : 'a' }); return s; })`, reason: "success"},
		{name: "marks to be compared", body: `fn(() => 'a'['locale' + 'Compare']('a' + '\u0301\u0323'.repeat(3e5)))`, reason: "fail", kind: "RuntimeError"},
		{name: "JSON of nothing", body: `fn(() => { const a = []; a.length = 2 ** 32 - 1; for (;;) try { JSON.stringify(a); } catch {} })`, reason: "kill", kind: "TimeoutError", memoryMB: 500},
		{name: "JSON of nothing in a timer", body: `fn(() => new Promise(() => setTimeout(() => { const a = []; a.length = 2 ** 32 - 1; JSON.stringify(a); }, 1)))`, reason: "kill", kind: "TimeoutError", memoryMB: 500},
		{name: "JSON of the same all over", body: `fn(() => { const o = {}; for (let i = 0; i < 1e4; i++) o['k' + i] = undefined; return JSON.stringify(Array(1e6).fill(o)); })`, reason: "kill", kind: "TimeoutError", memoryMB: 500},
		{name: "a state of nothing", body: `fn(() => { const a = []; a.length = 2 ** 32 - 1; return { a }; })`, reason: "kill", kind: "TimeoutError", memoryMB: 500},
		{name: "a logged value of nothing", body: `fn(() => { const a = []; a.length = 2 ** 32 - 1; console.log({ a }); })`, reason: "kill", kind: "TimeoutError", memoryMB: 500},
		{name: "JSON with names of nothing", body: `fn(() => { const a = []; a.length = 2 ** 32 - 1; return JSON.stringify({}, a); })`, reason: "fail", kind: "RuntimeError"},
		{name: "search of a long text among as long ones", body: `fn(() => Array(2 ** 16).fill('a'.repeat(2 ** 21) + 'b').indexOf('a'.repeat(2 ** 21) + 'c'))`, reason: "fail", kind: "RuntimeError"},
		{name: "sort of long texts", body: `fn(() => { const t = 'a'.repeat(2 ** 21); Array.from({ length: 2 ** 16 }, (_, i) => t + i % 2).sort(); })`, reason: "kill", kind: "TimeoutError", memoryMB: 500},
		{name: "sort of what becomes text", body: `fn(s => { const l = [[9, 1], undefined, [10, 2], 'a'.repeat(2000), 1, , true].sort(); if (l.join() !== [1, [10, 2], [9, 1], 'a'.repeat(2000), true, undefined, ,].join()) throw new Error(l.join()); return s; })`, reason: "success"},
		{name: "items of nothing to drop", body: `fn(() => [].values.call({ length: 2 ** 53 - 1 }).drop(2 ** 53 - 1).next())`, reason: "fail", kind: "RuntimeError"},

		{name: "memory", body: `fn(() => { const a = []; for (;;) a.push({}); })`, reason: "kill", kind: "OOMError"},
		{name: "memory that catches", body: `fn(s => { try { const a = []; for (;;) a.push('x'.repeat(1000) + a.length); } catch {} return s; })`, reason: "kill", kind: "OOMError"},
		{name: "one large string", body: `fn(s => { try { 'x'.repeat(2 ** 29); } catch {} return s; })`, reason: "kill", kind: "OOMError"},
		{name: "one large array", body: `fn(s => { try { new Uint8Array(2 ** 30); } catch {} return s; })`, reason: "kill", kind: "OOMError"},
		{name: "memory in a promise", body: `fn(async s => { await Promise.reject().catch(() => { const a = []; for (;;) a.push({}); }).catch(() => {}); return s; })`, reason: "kill", kind: "OOMError"},
		{name: "large state", body: `fn(() => ({ data: Array.from({ length: 12 }, () => 'q'.repeat(1 << 20)) }))`, reason: "kill", kind: "StateTooLargeError"},

		{name: "recursion", body: `const f = () => f(); fn(f)`, reason: "fail", kind: "AdaptorError"},
		{name: "recursion that catches", body: `const f = () => { try { f(); } catch { f(); } }; fn(f)`, reason: "kill", kind: "TimeoutError"},
		{name: "deep state", body: `fn(() => { let s = {}; for (let i = 0; i < 2e4; i++) s = { s }; return s; })`, reason: "crash", kind: "ExecutionError"},
		{name: "deep JSON", body: `fn(() => JSON.parse('['.repeat(1e6)))`, reason: "crash", kind: "RuntimeCrash"},
		{name: "deep pattern", body: `fn(() => new RegExp('('.repeat(1e5) + ')'.repeat(1e5)))`, reason: "crash", kind: "RuntimeCrash"},
		{name: "deep proxies", body: `fn(s => { let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return { ...s, x: p.x }; })`, reason: "fail", kind: "RuntimeError"},

		{name: "waiting for another thread", body: `fn(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0))`, reason: "fail", kind: "RuntimeError"},
		{name: "a state that throws", body: `fn(() => ({ get data() { throw new Error('no'); } }))`, reason: "crash", kind: "ExecutionError"},
		{name: "a function for a state", body: `fn(() => () => {})`, reason: "crash", kind: "SyntaxError"},
		{name: "a proxy for a state", body: `fn(s => new Proxy(s, {}))`, reason: "success"},
		{name: "a state with then", body: `fn(s => ({ ...s, then(resolve) { resolve({ data: 1 }); } }))`, reason: "success"},
		{name: "a frozen state", body: `fn(s => { Object.freeze(s); throw new Error('x'); })`, reason: "crash", kind: "TypeError"},
		{name: "an error that cannot be read", body: `fn(() => { throw new Proxy({}, { get() { throw 1; }, ownKeys() { throw 2; }, getPrototypeOf() { throw 3; } }); })`, reason: "fail", kind: "JobError"},
		{name: "a logged value that cannot be read", body: `fn(s => { console.log(new Proxy({}, { get() { throw 1; }, ownKeys() { throw 2; } })); return s; })`, reason: "success"},
		{name: "JSON taken away", body: `JSON.stringify = JSON.parse = () => '{"forged":true}'; fn(s => { console.log({ a: 1 }); return s; })`, reason: "success"},
		{name: "promises taken away", body: `Promise.prototype.then = () => {}; globalThis.Promise = null; fn(async s => s)`, reason: "success"},
		{name: "iteration taken away", body: `Array.prototype[Symbol.iterator] = null; fn(s => { console.log('still', { here: 1 }); return s; })`, reason: "success"},
		{name: "maps taken away", body: `Map.prototype.get = Map.prototype.set = null; fn(s => new Promise(r => setTimeout(r, 1, s)))`, reason: "success"},
		{name: "Object.prototype polluted", body: `for (const k of ['get', 'set', 'value', 'adaptor', 'globals', 'errors', 'message', 'then']) Object.defineProperty(Object.prototype, k, { __proto__: null, get() { return undefined; }, set() {}, configurable: true }); fn(s => s)`, reason: "success"},
		{name: "globals frozen", body: `const frozen = Object.freeze(globalThis); fn(s => { console.log(typeof setTimeout); return s; })`, reason: "success"},
	}
	w := runtest.New(t, New(Config{}))
	// Far beyond what any of these takes on however slow a machine, and less than the
	// 10,000 calls take that the engine makes before it looks by itself whether it is to stop.
	w.EngineGrace = 40 * time.Second
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			if testing.Short() && (tt.kind == "OOMError" || tt.name == "deep state" || tt.name == "large state") {
				t.Skip("fills the memory, in one goroutine")
			}
			limits := limits
			if tt.kind != "TimeoutError" {
				limits.RunTimeout = 2 * time.Minute // never reached, on however slow a machine
			}
			limits.MemoryMB = max(limits.MemoryMB, tt.memoryMB)
			var log bytes.Buffer
			w.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
			record := w.Run(ctx, limits, runtest.OneJob(tt.body))
			require.Equal(t, tt.reason, record.Reason, "%s: %s", record.ErrorType, record.ErrorMessage)
			require.Equal(t, tt.kind, record.ErrorType, record.ErrorMessage)
			require.Empty(t, log.String(), "the runner had to go on without the engine")
		})
	}
}

// Guards against JSON that is valid, and that Phoenix drops the connection over,
// with all the runs on it: half of a surrogate pair.
func TestHalvesOfSurrogatesDoNoHarm(t *testing.T) {
	w := runtest.New(t, New(Config{}))
	record := w.Job(`fn(s => { console.log('a\ud800b'); return { ...s, data: { '\udc00': 'x\ud800' } }; })`)
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.Equal(t, []string{"\"a\uFFFDb\""}, runtest.Lines(t, record, "JOB"))
	require.JSONEq(t, "{\"data\":{\"\uFFFD\":\"x\uFFFD\"}}", string(record.FinalState))
}
