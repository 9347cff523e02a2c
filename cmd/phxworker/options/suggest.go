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

// edits returns how many letters to put in, take out or change to get from a to b
// (Levenshtein's distance).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
