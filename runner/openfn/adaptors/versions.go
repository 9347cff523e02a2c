package adaptors

import "strings"

// compareVersions orders exact versions, with those before a release below all
// releases.
func compareVersions(a, b string) int {
	coreA, preA, _ := strings.Cut(a, "-")
	coreB, preB, _ := strings.Cut(b, "-")
	switch {
	case preA == "" && preB != "":
		return 1
	case preA != "" && preB == "":
		return -1
	case coreA != coreB:
		return compareParts(coreA, coreB)
	}
	return compareParts(preA, preB)
}

// compareParts compares what stands between dots: as numbers, the longer of which
// is the larger since none begins with 0.
func compareParts(a, b string) int {
	partsA, partsB := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(partsA), len(partsB)) {
		if len(partsA[i]) != len(partsB[i]) {
			return len(partsA[i]) - len(partsB[i])
		}
		if c := strings.Compare(partsA[i], partsB[i]); c != 0 {
			return c
		}
	}
	return len(partsA) - len(partsB)
}
