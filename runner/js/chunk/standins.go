package chunk

import (
	_ "embed"
	"errors"
	"io/fs"
	"strings"
)

// StandIn is a package from npm that stands in for one of Node's builtins. It is installed with the adaptors, with all
// that it depends on.
type StandIn struct{ Name, Version, Integrity string }

// StandIns are what a tree needs beside the adaptors.
var StandIns = []StandIn{
	{"assert", "2.1.0", "sha512-eLHpSK/Y4nhMJ07gDaAzoX/XAKS8PSaojml3M0DM4JpV1LAi5JOJ/p6H/XWrl8L+DzVEvVCW1z3vWAaB9oTsQw=="},
	{"buffer", "6.0.3", "sha512-FTiCpNxtwiZZHEZbcbTIcZjERVICn9yq/pDFkTl95/AxzD1naBctN7YO68riM/gLSDY7sdrMby8hofADYuuqOA=="},
	{"events", "3.3.0", "sha512-mQw+2fkQbALzQ7V0MY0IqdnXNOeTtP4r0lN9z7AAawCXgqea7bDii20AYrIBrFd/Hx0M2Ocz6S111CaFkUcb0Q=="},
	{"path-browserify", "1.0.1", "sha512-b7uo2UCUOYZcnF/3ID0lulOJi/bafxa1xPe7ZPsammBSpjSWQkjNxlt635YGS2MiR9GjvuXCtz2emr3jbsz98g=="},
	{"punycode", "2.3.1", "sha512-vYt7UD1U9Wg6138shLtLOvdAu+8DsC/ilFtEVHcH+wydcSpNE20AfSOduf6MkRFahL5FY7X1oU7nKVZFtfq8Fg=="},
	{"readable-stream", "4.8.0", "sha512-2jhTTU3Eilp/2DMT71gbcoqC35eQHasMJH0RHkYxwlxIv3+FR6Y5xAFZIwEGLxKkjZYEFlsiMNIdwUqjK2lLHQ=="},
	{"string_decoder", "1.3.0", "sha512-hkRX8U1WjJFd8LsDJ2yQ/wWWxaopEsABU1XfkM8A+j0+85JAGppt16cr1Whg6KIbb4okU6Mql6BOj+uup/wKeA=="},
	{"url", "0.11.4", "sha512-oCwdVC7mTuWiPyjLUz/COz5TLk6wgp0RCsN+wHZ2Ekneac9w8uuV0njcbbie2ME+Vs+d6duwmYuR3HgQXs1fOg=="},
	{"util", "0.12.5", "sha512-kZf/K6hEIrWHI6XqOFUiiMa+79wE/D8Q+NCNAWclkyg3b4d2k7s0QGepNjiABc+aR3N1PAyHL7p6UcLY6LmrnA=="},
	{"web-streams-polyfill", "4.3.0", "sha512-/Gnggvj9oSrEvJbDyyPtAnxBt5fGQM2iWOKQNu7ie1OxDgK40iZpyV3TKaRiEzVj1oA1UxKnEy9XPXh6PW3eVw=="},
}

// locked has StandIns and all that they need, as npm would install them: a line each, with path, name, version and sum.
// TestTheLockIsOfTheStandIns writes it.
//
//go:embed standins.lock
var locked string

// Locked is a package of the tree of [StandIns]: where it lies, what it is and its sum, as npm has them.
type Locked struct{ Path, Name, Version, Integrity string }

// Lock returns the tree of [StandIns].
func Lock() []Locked {
	var all []Locked
	for line := range strings.Lines(locked) {
		if f := strings.Fields(line); len(f) == 4 {
			all = append(all, Locked{f[0], f[1], f[2], f[3]})
		}
	}
	return all
}

// Overlay is a tree of several: of those that have a file, the first.
func Overlay(trees ...fs.FS) fs.FS { return overlay(trees) }

type overlay []fs.FS

func (o overlay) Open(name string) (fs.File, error) {
	var first error = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	for _, tree := range o {
		file, err := tree.Open(name)
		if err == nil {
			return file, nil
		}
		if errors.Is(first, fs.ErrNotExist) {
			first = err
		}
	}
	return nil, first
}

// standInsFolder is where the packages that stand in are, apart from those of the adaptors.
const standInsFolder = "standins"

// mounted is a tree with another in a folder.
type mounted struct{ tree, standIns fs.FS }

func (m mounted) Open(name string) (fs.File, error) {
	if rest, in := strings.CutPrefix(name, standInsFolder+"/"); in {
		return m.standIns.Open(rest)
	}
	return m.tree.Open(name)
}
