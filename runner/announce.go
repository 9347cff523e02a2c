package runner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// announceLimits writes the lines about its limits that OpenFn's engine begins
// every run's log with.
func (r *Run) announceLimits() {
	r.Log(TextLine("info", "RTE", "Memory limit: "+FormatMB(r.Limits.MemoryMB)))
	r.Log(TextLine("info", "RTE", "Timeout: "+formatSeconds(r.Limits.RunTimeout)))
}

// announceVersions writes the lines that follow run:start there: the payload
// limit, and what executes the run.
func (r *Run) announceVersions() {
	r.Log(TextLine("info", "RTE", "Payload limit: "+FormatMB(r.Limits.PayloadMB)))
	r.Log(TextLine("info", "VER", r.Versions.String()))
}

func formatSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

// String is the line by which people see in a run's log what executed it, laid
// out as that of OpenFn's worker: the worker, the engine, the adaptors.
func (v Versions) String() string {
	names := []string{"worker", "node", "engine", "runtime"}
	var adaptors []string
	for name := range v {
		if !slices.Contains(names, name) {
			adaptors = append(adaptors, name)
		}
	}
	slices.Sort(adaptors)
	names = slices.DeleteFunc(names, func(name string) bool { return v[name] == nil })
	names = append(names, adaptors...)
	width := 0
	for _, name := range names {
		width = max(width, len(name))
	}
	var b strings.Builder
	b.WriteString("Versions:")
	for _, name := range names {
		version := v[name]
		if list, ok := version.([]string); ok {
			version = strings.Join(slices.Sorted(slices.Values(list)), ", ")
		}
		fmt.Fprintf(&b, "\n    ▸ %-*s    %v", width, name, version)
	}
	return b.String()
}
