package npm

import (
	"path/filepath"
	"sync"
)

// libc tells which C library programs on this Linux are linked with: the dynamic loader
// of musl lies where no other puts its own.
var libc = sync.OnceValue(func() string {
	if found, _ := filepath.Glob("/lib/ld-musl-*.so.1"); len(found) > 0 {
		return "musl"
	}
	return "glibc"
})
