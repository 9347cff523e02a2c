package options

import (
	"slices"
	"strings"

	"github.com/phxworker/phxworker"
)

// extensions returns the names to offer, as [phxworker.Config] takes them.
func (r *reader) extensions(key string) []string {
	v, _ := r.take(key)
	if v.text == "none" {
		return nil
	}
	names := items(v.text)
	known := append(phxworker.KnownExtensions(), phxworker.AllExtensions)
	for _, name := range names {
		if !slices.Contains(known, name) {
			r.failf("%s: there is no extension %q; write none, all, or some of %s", v.from, name, strings.Join(phxworker.KnownExtensions(), ", "))
		}
	}
	return names
}
