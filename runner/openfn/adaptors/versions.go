package adaptors

import (
	"strings"

	"deps.dev/util/semver"
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
	return semver.NPM.Compare(a, b)
}
