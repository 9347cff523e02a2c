package js

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
)

// A job reaches what Go offers the prelude in no way: neither by the stack, nor by functions that
// the prelude calls. So it cannot log as another, report steps, or end its run by itself.
func TestNoJobReachesTheHost(t *testing.T) {
	const say = `console.log(JSON.stringify(seen)); return s; })`
	tests := []struct{ name, body string }{
		{name: "by frames", body: `fn(s => { const seen = []; Error.prepareStackTrace = (e, frames) => { for (const f of frames) if (f?.getFunction?.() || f?.getThis?.()) seen.push(String(f.getFunction())); return ''; }; new Error('x').stack; try { console.log({ get a() { throw new Error('y'); } }); } catch {} ` + say},
		{name: "by callers", body: `fn(s => { const seen = []; const f = function () { return f.caller; }; try { if (f()) seen.push('caller'); } catch {} try { if ((function () { return arguments.callee.caller; })()) seen.push('callee'); } catch {} ` + say},
		{name: "by globals", body: `fn(s => { const seen = Object.getOwnPropertyNames(globalThis).filter(n => /host|native|reject|phx|bridge/i.test(n)); ` + say},
		{name: "by calls", body: `fn(s => { const seen = []; const { call, apply } = Function.prototype; Function.prototype.call = Function.prototype.apply = Reflect.apply = function () { seen.push(this?.name); }; console.log({}); setTimeout(() => {}, 0); Function.prototype.call = call; Function.prototype.apply = apply; ` + say},
		{name: "by arguments", body: `fn(s => { const seen = []; for (const i of [0, 1, 2, 3]) Object.defineProperty(Array.prototype, i, { set(v) { seen.push(v); }, get() { return '"forged"'; }, configurable: true }); console.log({}); for (const i of [0, 1, 2, 3]) delete Array.prototype[i]; ` + say},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.T = t
			record := w.Job(tt.body)
			require.Equal(t, "success", record.Reason, record.ErrorMessage)
			lines := runtest.Lines(t, record, "JOB")
			require.Equal(t, `"[]"`, lines[len(lines)-1])
		})
	}
}

// What a run leaves behind, no other finds: all that outlives it is the compiled prelude, which
// is read only, and a count of the steps.
func TestNothingOfARunIsThereForTheNext(t *testing.T) {
	w := runtest.New(t, New(Config{}))
	const leave = `globalThis.left = s.configuration; for (const o of [Object, Array, Function, Promise, String]) o.prototype.left = 1; console = { log() {} }; JSON.stringify = () => '{"left":1}';`
	for _, project := range []string{"a", "a", "b"} {
		record := w.Job(`fn(s => { const found = [typeof left, {}.left, [].left, ''.left, JSON.stringify({})]; `+leave+` return { data: found.join() }; })`, `"project_id":"`+project+`"`)
		require.Equal(t, "success", record.Reason, record.ErrorMessage)
		require.JSONEq(t, `{"data":"undefined,,,,{}"}`, string(record.FinalState))
	}
}
