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

// Guards against a VM that executes a second step: none that was used stands ready, and as many do as were in use at a time.
func TestAVMIsForOneStep(t *testing.T) {
	e := New(Config{})
	require.NoError(t, e.Check(t.Context()))
	s, err := e.stock()
	require.NoError(t, err)
	t.Cleanup(s.close)
	require.Len(t, s.ready, 1, "the first step waits for none")
	used := make(map[*sandbox]bool) // which keeps their addresses from being used again
	for range 10 {
		var taken []*sandbox
		for range 3 {
			box, err := s.take(1<<26, nil)
			require.NoError(t, err)
			require.False(t, used[box])
			used[box] = true
			taken = append(taken, box)
		}
		for _, box := range taken {
			s.discard(box)
		}
		require.Eventually(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return !s.working && len(s.ready) <= 3
		}, time.Minute, time.Millisecond)
		for _, box := range s.ready {
			require.False(t, used[box])
		}
	}
	require.NotEmpty(t, s.ready)
	require.Equal(t, 3, s.most)
}

// A VM that grew large is closed at once, and one that comes back late as well.
func TestWhatAVMHeldIsFreed(t *testing.T) {
	compiled, err := compilePrelude()
	require.NoError(t, err)
	s := &stock{prelude: compiled}
	large, err := s.take(0, nil)
	require.NoError(t, err)
	_, err = large.vm.Eval("globalThis.much = 'x'.repeat(5e6)", 0)
	require.NoError(t, err)
	late, err := s.take(0, nil)
	require.NoError(t, err)
	s.discard(large)
	require.Nil(t, large.watch.hooks, "it is closed")
	require.False(t, s.working)
	s.close()
	s.discard(late)
	require.Nil(t, late.watch.hooks)
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
