package js

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/js/vm"
)

const typicalJob = `fn(state => {
  const items = state.data.items.map(item => ({ ...item, total: item.price * item.count }));
  console.log('items', items.length);
  return { ...state, data: { ...state.data, items } };
});
each($.data.items, fn(state => { (state.seen ??= []).push(state.data.id); return state; }));`

const typicalInput = `{"data":{"items":[{"id":1,"price":2.5,"count":4},{"id":2,"price":10,"count":1},{"id":3,"price":0.5,"count":12}]}}`

// BenchmarkRun takes a plan of one step over the wire, from the claim to
// run:complete; "no engine" is the same with an engine that does nothing.
func BenchmarkRun(b *testing.B) {
	engines := []struct {
		name   string
		engine runner.Engine
	}{
		{"no engine", runner.Func(func(context.Context, *runner.Run) (any, error) { return nil, nil })},
		{"js", New(Config{})},
	}
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			w := runtest.New(b, New(Config{}))
			w.Engine = e.engine
			b.ReportAllocs()
			for b.Loop() {
				run := runtest.OneJob(typicalJob)
				run.Dataclip = json.RawMessage(typicalInput)
				record := w.Run(b.Context(), runner.Limits{}, run)
				require.Equal(b, "success", record.Reason)
			}
		})
	}
}

// BenchmarkParts shows where the time of a step goes.
func BenchmarkParts(b *testing.B) {
	p, err := compilePrelude()
	require.NoError(b, err)
	common := compile.Adaptor{Name: commonAdaptor, Exports: p.exports}
	b.Run("an empty VM", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			made, err := vm.New()
			require.NoError(b, err)
			made.Close()
		}
	})
	b.Run("a VM with the prelude", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			box, err := newSandbox(p)
			require.NoError(b, err)
			box.close()
		}
	})
	b.Run("a VM that is used again", func(b *testing.B) {
		b.ReportAllocs()
		s := &stock{prelude: p}
		defer s.close()
		for b.Loop() {
			box, err := s.take(1<<26, nil)
			require.NoError(b, err)
			s.discard(box)
		}
	})
	b.Run("compiling a job", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := compile.Compile(compile.Job{Name: "a", Body: typicalJob, Adaptors: []compile.Adaptor{common}})
			require.NoError(b, err)
		}
	})
	b.Run("compiling the prelude", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := compilePrelude()
			require.NoError(b, err)
		}
	})
}
