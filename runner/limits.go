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

// Limits bound one run. The worker has its own; a plan's options override them.
type Limits struct {
	// RunTimeout is how long the engine may take. Defaults to 300 s.
	RunTimeout time.Duration
	// MemoryMB is what the engine may hold, in MB of 2^20 bytes. Defaults to 500.
	MemoryMB float64
	// StateMB is what a step may leave behind for the next, as JSON. Defaults to 15 % of
	// MemoryMB and 50 at least; negative: as much as there is memory for. See [Limits.StateLimitMB].
	StateMB float64
	// PayloadMB is the largest output dataclip and final state that is sent. Defaults to 10; negative:
	// none is sent.
	PayloadMB float64
	// LogPayloadMB is the largest log line that is sent. Defaults to 1; negative: none is sent.
	LogPayloadMB float64
	// WithholdDataclips keeps the contents of output dataclips from the server; their ids are still sent. A plan
	// asks for it with output_dataclips: false.
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

// maxMB and maxMilliseconds keep what a plan says within the numbers that limits are counted in. No run gets near them.
const (
	maxMB           = 1 << 30
	maxMilliseconds = 1e12
)

// override returns a copy of l with what the plan sets.
func (l Limits) override(o PlanOptions) Limits {
	set := func(limit *float64, value *float64) {
		switch {
		case value == nil:
		case *value > 0:
			*limit = min(*value, maxMB)
		case *value == 0 && limit != &l.MemoryMB:
			*limit = -1
		}
	}
	set(&l.MemoryMB, o.RunMemoryLimitMB)
	set(&l.StateMB, o.StateLimitMB)
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

// StateLimitMB returns what a step may leave behind, in MB of 2^20 bytes; 0 for no limit of its own.
func (l Limits) StateLimitMB() float64 {
	switch {
	case l.StateMB > 0:
		return l.StateMB
	case l.StateMB < 0:
		return 0
	}
	return max(leastStateMB, l.MemoryMB*stateShare/100)
}

// What a step may leave behind unless somebody says otherwise, as with OpenFn's worker: no limit
// on memory is so small that a state of this size is not let through, where there is memory for it.
const (
	leastStateMB = 50
	stateShare   = 15 // percent of the memory
)

// FormatMB writes a number of MB the way it stands in the log lines of OpenFn's
// worker: 10mb, 0.5mb. A limit that is negative, so that nothing is sent, is one of 0mb.
func FormatMB(mb float64) string { return delivery.FormatMB(mb) }

// start reports run:start. Around it, the run's log begins with the lines of OpenFn's worker about limits and versions,
// unless an engine has none to tell.
func (r *Run) start(engine Versions) {
	tell := func(source, text string) {
		if engine != nil {
			r.Log(TextLine("info", source, text))
		}
	}
	tell("RTE", "Memory limit: "+FormatMB(r.Limits.MemoryMB))
	tell("RTE", "Timeout: "+strconv.FormatFloat(r.Limits.RunTimeout.Seconds(), 'f', -1, 64)+"s")
	r.outbox.Start(r.Versions)
	tell("RTE", "Payload limit: "+FormatMB(r.Limits.PayloadMB))
	tell("VER", r.Versions.String())
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
