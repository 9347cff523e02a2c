package adaptors

import (
	"strings"

	"github.com/phxworker/phxworker/runner/npm"
)

// compareVersions orders exact versions, with those before a release below all
// releases.
func compareVersions(a, b string) int {
	earlyA, earlyB := strings.Contains(a, "-"), strings.Contains(b, "-")
	switch {
	case earlyA && !earlyB:
		return -1
	case earlyB && !earlyA:
		return 1
	}
	return npm.Compare(a, b)
}
