package options

import (
	"fmt"
	"maps"
	"slices"
)

// Suggest returns the option whose name is the most like a mistyped one, empty if
// none is much like it.
func Suggest(name string) string { return Closest(name, slices.Collect(maps.Keys(fileKeys()))) }

// Closest returns which of the names is the most like a mistyped one, empty if none
// is much like it.
func Closest(name string, names []string) string {
	closest, least := "", 1+max(1, len(name)/3)
	for _, key := range names {
		if n := edits(name, key); n < least || n == least && key < closest {
			closest, least = key, n
		}
	}
	return closest
}

func didYouMean(name string) string {
	if key := Suggest(name); key != "" {
		return fmt.Sprintf(": did you mean %q?", key)
	}
	return ""
}

// edits returns how many letters to put in, take out or change, or neighbours to
// swap, to get from a to b (the distance of Damerau and Levenshtein).
func edits(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			d[i][j] = min(change, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
