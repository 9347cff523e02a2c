package fence

import (
	"slices"
	"strings"
)

// MappedIn returns the files that the text of a /proc/PID/maps names, each once: a
// program, and what it is linked with.
func MappedIn(maps string) []string {
	var files []string
	for line := range strings.Lines(maps) {
		// addresses rights offset device inode path; the path may have spaces in it
		_, path, found := strings.Cut(strings.TrimSuffix(line, "\n"), " /")
		if path = "/" + path; found && !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	return files
}
