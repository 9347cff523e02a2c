package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phxworker/phxworker/runner/delivery"
)

// Limits bound one run. The worker has its own; a plan's options override
// them.
type Limits struct {
	// RunTimeout is how long the engine may take. Defaults to 300 s.
	RunTimeout time.Duration
	// MemoryMB is what the engine may hold, in MB of 2^20 bytes. Defaults to 500.
	MemoryMB float64
	// PayloadMB is the largest output dataclip and final state. Defaults to 10.
	PayloadMB float64
	// LogPayloadMB is the largest log line. Defaults to 1.
	LogPayloadMB float64
	// WithholdDataclips keeps the contents of output dataclips from the
	// server; their ids are still sent. A plan asks for it with
	// output_dataclips: false.
	WithholdDataclips bool
	// JobLogLevel is the least severe level of a job's own lines that is
	// sent: debug (also when empty), info, warn, error or none.
	JobLogLevel string
}

// WithDefaults returns a copy of l with the zero fields filled.
func (l Limits) WithDefaults() Limits {
	l.RunTimeout = cmp.Or(l.RunTimeout, 300*time.Second)
	l.MemoryMB, l.PayloadMB, l.LogPayloadMB = cmp.Or(l.MemoryMB, 500), cmp.Or(l.PayloadMB, 10), cmp.Or(l.LogPayloadMB, 1)
	return l
}

// maxMB and maxMilliseconds keep what a plan says within the numbers that
// limits are counted in. No run gets near them.
const (
	maxMB           = 1 << 30
	maxMilliseconds = 1e12
)

// override returns a copy of l with what the plan sets.
func (l Limits) override(o PlanOptions) Limits {
	set := func(limit *float64, value *float64) {
		if value != nil && *value > 0 {
			*limit = min(*value, maxMB)
		}
	}
	set(&l.MemoryMB, o.RunMemoryLimitMB)
	set(&l.PayloadMB, o.PayloadLimitMB)
	set(&l.LogPayloadMB, o.LogPayloadLimitMB)
	if o.RunTimeoutMS != nil && *o.RunTimeoutMS > 0 {
		l.RunTimeout = milliseconds(*o.RunTimeoutMS)
	}
	if o.OutputDataclips != nil {
		l.WithholdDataclips = !*o.OutputDataclips
	}
	if o.JobLogLevel != "" {
		l.JobLogLevel = o.JobLogLevel
	}
	return l
}

// FormatMB writes a number of MB the way it stands in the log lines of OpenFn's
// worker: 10mb, 0.5mb.
func FormatMB(mb float64) string { return delivery.FormatMB(mb) }

// announceLimits writes the lines about its limits that OpenFn's engine begins
// every run's log with.
func (r *Run) announceLimits() {
	r.Log(TextLine("info", "RTE", "Memory limit: "+FormatMB(r.Limits.MemoryMB)))
	r.Log(TextLine("info", "RTE", "Timeout: "+strconv.FormatFloat(r.Limits.RunTimeout.Seconds(), 'f', -1, 64)+"s"))
}

// announceVersions writes the lines that follow run:start there: the payload
// limit, and what executes the run.
func (r *Run) announceVersions() {
	r.Log(TextLine("info", "RTE", "Payload limit: "+FormatMB(r.Limits.PayloadMB)))
	r.Log(TextLine("info", "VER", r.Versions.String()))
}

// String is the line by which people see in a run's log what executed it, laid
// out as that of OpenFn's worker: the worker, the engine, the adaptors.
func (v Versions) String() string {
	first := []string{"worker", "node", "engine", "runtime"}
	adaptors := slices.DeleteFunc(slices.Sorted(maps.Keys(v)), func(name string) bool { return slices.Contains(first, name) })
	names := append(slices.DeleteFunc(first, func(name string) bool { return v[name] == nil }), adaptors...)
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
