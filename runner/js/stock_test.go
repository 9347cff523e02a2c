package js

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// Guards against VMs without end, and against one that serves after its engine was left in the middle of something.
func TestAVMServesAgain(t *testing.T) {
	e := New(Config{})
	require.NoError(t, e.Check(t.Context()))
	s, err := e.stock()
	require.NoError(t, err)
	t.Cleanup(s.close)
	require.Len(t, s.ready, 1, "the first step waits for none")
	first := s.ready[0]
	var taken []*sandbox
	for range mostReady + 1 {
		box, err := s.take(1<<26, func(string, []any) (any, error) { return nil, nil })
		require.NoError(t, err)
		box.chunks = func(string) ([]byte, error) { return nil, nil }
		taken = append(taken, box)
	}
	require.Same(t, first, taken[0])
	require.PanicsWithValue(t, "as it is", func() {
		_, _ = first.vm.Call(first.vm.Function(func([]any) (any, error) { panic("as it is") }))
	})
	for _, box := range taken {
		s.discard(box)
	}
	require.Len(t, s.ready, mostReady)
	for _, box := range s.ready {
		require.NotSame(t, first, box)
		require.Nil(t, box.host, "nothing of a run is kept")
		require.Nil(t, box.chunks)
	}
	s.close()
	late, err := s.take(0, nil)
	require.NoError(t, err)
	s.discard(late)
	require.Empty(t, s.ready)
}

// Nothing of the moment at which a VM was made ahead reaches a job: time goes on, and what is random differs. What a run patches,
// or leaves running, no other meets, though they come one after the other from the same stock, and at the same time.
func TestWhatStandsReadyIsLikeNew(t *testing.T) {
	engine := New(Config{})
	const job = `fn(s => {
		const found = [typeof left, {}.left, [].left, ''.left, [1].map(x => x).length, JSON.stringify({}), String(Math.max(1, 2))];
		globalThis.left = s; Object.prototype.left = 1; Array.prototype.map = () => []; JSON.stringify = () => 'x'; Math.max = () => 9;
		setTimeout(() => { throw new Error('of another run'); }, 1);
		Promise.resolve().then(() => { globalThis.later = 1; });
		return { data: found.join(), at: Date.now(), random: Math.random(), later: typeof later };
	})`
	var mu sync.Mutex
	randoms := make(map[float64]bool)
	var runs sync.WaitGroup
	for range 3 {
		w := runtest.New(t, engine)
		runs.Go(func() {
			for range 7 {
				began := time.Now().UnixMilli()
				record := w.Job(job)
				var got struct {
					Data, Later string
					At          int64
					Random      float64
				}
				if record.Reason != "success" || json.Unmarshal(record.FinalState, &got) != nil {
					t.Error(record.Reason, record.ErrorMessage)
					return
				}
				if got.Data != "undefined,,,,1,{},2" || got.Later != "undefined" {
					t.Error("it met another run: ", got)
				}
				if got.At < began || got.At > time.Now().UnixMilli() {
					t.Error("its time is not that of the run: ", got)
				}
				mu.Lock()
				if randoms[got.Random] {
					t.Error("two runs have the same random number: ", got)
				}
				randoms[got.Random] = true
				mu.Unlock()
			}
		})
	}
	runs.Wait()
}

// What is loaded late does what it did, whatever the job has changed by then.
func TestWhatIsLoadedLate(t *testing.T) {
	w := runtest.New(t, New(Config{}))
	const spoil = `String.prototype.slice = Function.prototype.call = Function.prototype.apply = Reflect.apply = () => 'spoilt';`
	record := w.Run(t.Context(), runner.Limits{}, runtest.OneJob(`fn(s => { `+spoil+` try { JSON.parse('{"a" 1}'); } catch (e) { return { data: e.message }; } })`))
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.JSONEq(t, `{"data":"Expected ':' after property name in JSON at position 5"}`, string(record.FinalState))
	record = w.Run(t.Context(), runner.Limits{}, runtest.OneJob(`fn(s => { `+spoil+` RegExp.prototype.exec = String.prototype.toLowerCase = Date.UTC = () => 0; return { data: Date.parse('Fri Jan 5 2024 UTC') }; })`))
	require.JSONEq(t, `{"data":1704412800000}`, string(record.FinalState), record.ErrorMessage)
	run := runtest.OneJob(`each('$.l[*]', fn(s => ({ ...s, n: (s.n ?? 0) + s.data }))); fn(s => ({ data: s.n }))`)
	run.Dataclip = json.RawMessage(`{"l":[1,2]}`)
	record = w.Run(t.Context(), runner.Limits{}, run)
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.JSONEq(t, `{"data":3}`, string(record.FinalState))
}

// Guards against what a job leaves in its VM, or in what Go keeps beside it, for the next one: an engine whose VMs serve again comes to
// what one comes to that makes each anew.
func TestAVMThatServesAgainIsLikeNew(t *testing.T) {
	again, anew := New(Config{}), New(Config{})
	s, err := anew.stock()
	require.NoError(t, err)
	s.close() // it keeps none from now on
	kept, err := again.stock()
	require.NoError(t, err)
	t.Cleanup(kept.close)
	limits := runner.Limits{MemoryMB: 20, RunTimeout: time.Minute}
	jobs := []string{
		`fn(s => ({ ...s, data: { n: 1.5, t: 'ä', l: [1, null], d: new Date(0), m: [...'ab'].map(x => x + x), b: String(2n ** 70n), j: JSON.stringify({ a: 1 }) } }))`,
		`each('$.data[*]', fn(s => s)); fn(s => { console.log(Object.keys(globalThis), [3, 1, 2].sort(), /(?<a>.)b/.exec('ab').groups.a); return s; })`,
		`fn(() => { null.x; })`,
		`fn(() => { throw Object.assign(new Error('left'), { cause: globalThis }); })`,
		`fn(s => { for (const o of [Object, Array, String, Map, Promise, JSON, Reflect]) for (const k of Reflect.ownKeys(o.prototype ?? o)) try { (o.prototype ?? o)[k] = () => 'left'; } catch {} return s; })`,
		`fn(s => { Promise.reject(new Error('nobody')); return new Promise(r => setTimeout(r, 20, s)); })`,
		`fn(s => { setTimeout(() => { globalThis.left = 1; }, 1e6); setInterval(() => {}, 1e6); new Promise(() => {}); return s; })`,
		`fn(() => { const a = [1]; for (;;) a.push(...a); })`,
		`fn(s => { try { const a = []; for (;;) a.push('x'.repeat(a.length)); } catch {} return s; })`,
		`fn(() => new ArrayBuffer(64 << 20))`,
		`const f = () => f(); fn(f)`,
		`fn(s => { for (let i = 0; i < 5000; i++) globalThis['n' + i] = Symbol.for('s' + i); new FinalizationRegistry(() => {}).register({}, 1); return { w: new WeakRef(s), ...s }; })`,
		`fn(s => JSON.parse('{"a" 1}'))`,
		`import('left').catch(() => {}); fn(s => s)`,
	}
	outcome := func(e *Engine, job string) []any {
		record := runtest.New(t, e).Run(t.Context(), limits, runtest.OneJob(job))
		return []any{record.Reason, record.ErrorType, record.ErrorMessage, string(record.FinalState), runtest.Lines(t, record, "JOB")}
	}
	for _, job := range jobs {
		require.Equal(t, outcome(anew, job), outcome(again, job), job)
		require.Equal(t, outcome(anew, jobs[1]), outcome(again, jobs[1]), "after "+job)
	}
	require.Len(t, kept.ready, 1, "one after the other had the same")
}
