package js

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phxworker/phxworker/runner"
)

// versionsLine is the line by which people see in a run's log what executed it,
// laid out as that of OpenFn's worker: the worker, the engine, the adaptors.
func versionsLine(versions runner.Versions) string {
	names := []string{"worker", "engine", "runtime"}
	var adaptors []string
	for name := range versions {
		if !slices.Contains(names, name) {
			adaptors = append(adaptors, name)
		}
	}
	slices.Sort(adaptors)
	names = append(names, adaptors...)
	width := 0
	for _, name := range names {
		width = max(width, len(name))
	}
	var b strings.Builder
	b.WriteString("Versions:")
	for _, name := range names {
		version := versions[name]
		if list, ok := version.([]string); ok {
			version = strings.Join(slices.Sorted(slices.Values(list)), ", ")
		}
		fmt.Fprintf(&b, "\n    ▸ %-*s    %v", width, name, version)
	}
	return b.String()
}
