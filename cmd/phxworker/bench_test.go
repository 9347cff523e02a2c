package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
)

// These benchmarks are of the binary as it is shipped, in a process of its own.
// docs/performance.md has what they gave.

// benchBinary makes the binary as a release has it: with no symbols.
func benchBinary(b *testing.B) string {
	b.Helper()
	b.Setenv("GOFLAGS", "-trimpath -ldflags=-s")
	b.Setenv("CGO_ENABLED", "0")
	return buildWorker(b)
}

// BenchmarkStart measures from the start of the process until the server has let
// it onto the queue.
func BenchmarkStart(b *testing.B) {
	binary := benchBinary(b)
	server := startServer(b, "")
	var all []time.Duration
	for b.Loop() {
		begin := time.Now()
		s := launchAt(b, server, binary)
		all = append(all, time.Since(begin))
		s.signal()
		require.Equal(b, exitOK, s.exitCode())
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms-to-joined")
}

// launchAt starts a worker, and returns once the server has seen it join.
func launchAt(b *testing.B, server *mockserver.Server, binary string, args ...string) *shipped {
	b.Helper()
	s := spawn(b, server, binary, server.URL(), args...)
	for server.Stats().Workers == 0 {
		time.Sleep(100 * time.Microsecond)
	}
	return s
}

// BenchmarkMemory measures an idle worker of five slots, and the same one right after
// it has executed runs, with the processes of its engine: ask for 100 runs, or 3,000, with
// -benchtime 3000x.
func BenchmarkMemory(b *testing.B) {
	if runtime.GOOS != "linux" {
		b.Skip("how much memory a process has to itself is read from /proc")
	}
	const all = "import * as all from '@openfn/language-common'; all.fn(s => ({ ...s, n: Object.keys(all).length }))"
	for _, bb := range []struct{ name, engine, body string }{
		{"js", "js", "fn(s => s)"}, {"js, all of common", "js", all}, {"openfn", "openfn", "fn(s => s)"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			if bb.engine == "openfn" {
				runtest.Need(b, "node")
			}
			server := startServer(b, "")
			s := launchAt(b, server, benchBinary(b), "--capacity", "5", "--engine", bb.engine, "--repo-dir", benchRepo(b, bb.name))
			time.Sleep(time.Second)
			idle, own := memory(b, s.worker.Process.Pid)
			begin := time.Now()
			enqueue(b, server, "first", bb.body) // installs
			require.Equal(b, "success", wait(b, server, "first").Reason)
			first := time.Since(begin)
			used := processor(b, s.worker.Process.Pid)
			for i := range b.N {
				enqueue(b, server, fmt.Sprint("r", i), bb.body)
			}
			b.ResetTimer()
			for i := range b.N {
				require.Equal(b, "success", wait(b, server, fmt.Sprint("r", i)).Reason)
			}
			b.StopTimer()
			b.ReportMetric(float64(processor(b, s.worker.Process.Pid)-used)/float64(b.N), "cpu-ms/run")
			after, anonymous := memory(b, s.worker.Process.Pid)
			b.ReportMetric(first.Seconds(), "s-first-run")
			b.ReportMetric(float64(idle)/1000, "MB-idle")
			b.ReportMetric(float64(own)/1000, "MB-idle-without-files")
			b.ReportMetric(float64(after)/1000, "MB-after")
			b.ReportMetric(float64(anonymous)/1000, "MB-after-without-files")
		})
	}
}

// benchRepo returns the folder for adaptors: for all of common it is that of other tests, where it may be prepared already, so
// that what was taken for that is not in the figures of a second time.
func benchRepo(b *testing.B, name string) string {
	b.Helper()
	if name == "js, all of common" {
		return runtest.Adaptors(b)
	}
	return b.TempDir()
}

// processor returns the time of the processor in ms that a process has used so far, without its children.
func processor(b *testing.B, pid int) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')'):])
	user, _ := strconv.Atoi(string(fields[12]))
	system, _ := strconv.Atoi(string(fields[13]))
	return (user + system) * 10 // of 100 ticks a second
}

// memory returns the proportional set size of a process and its children in kB, and the
// part of it that is no page of a file: the kernel cannot drop that one.
func memory(b *testing.B, pid int) (pss, anonymous int) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil { // it has just ended
		return 0, 0
	}
	for line := range bytes.Lines(text) {
		_, _ = fmt.Sscanf(string(line), "Pss: %d kB", &pss)
		_, _ = fmt.Sscanf(string(line), "Pss_Anon: %d kB", &anonymous)
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		children, _ := os.ReadFile(task) // else it has just ended
		for child := range bytes.FieldsSeq(children) {
			n, _ := strconv.Atoi(string(child))
			more, anon := memory(b, n)
			pss, anonymous = pss+more, anonymous+anon
		}
	}
	return pss, anonymous
}
