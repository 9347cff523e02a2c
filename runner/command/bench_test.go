package command

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// BenchmarkRun takes a run of one step over the wire, from the claim to
// run:complete. The program is the test binary, which starts in some
// milliseconds; "no engine" is an engine that does nothing.
func BenchmarkRun(b *testing.B) {
	b.Run("no engine", func(b *testing.B) {
		benchmark(b, runtest.New(b, runner.Func(func(context.Context, *runner.Run) (any, error) { return nil, nil })))
	})
	configs := []struct {
		name string
		cfg  Config
	}{
		{"a process per run", Config{}},
		{"a spare per run", Config{Spares: 2}},
		{"a process reused", Config{Runs: 1 << 30}},
	}
	for _, c := range configs {
		b.Run(c.name, func(b *testing.B) { benchmark(b, newWire(b, "ready", c.cfg).Bench) })
	}
}

func benchmark(b *testing.B, bench *runtest.Bench) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		require.Equal(b, "success", bench.Job(`ok {"data":{"x":1}}`).Reason)
	}
}

// BenchmarkMessages shows what a message costs the worker.
func BenchmarkMessages(b *testing.B) {
	state := `{"items":[` + strings.Repeat(`{"id":1,"name":"one"},`, 5000) + `null]}`
	for name, line := range map[string]string{
		"log":             `{"type":"log","step":"s1","level":"info","source":"JOB","message":["a line of the log",{"n":1}],"time":1700000000123}`,
		"state of 110 kB": `{"type":"step-complete","step":"s1","reason":"success","leaf":true,"state":` + state + `}`,
		"printed":         "a line that is no message",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				parse([]byte(line))
			}
		})
	}
}
