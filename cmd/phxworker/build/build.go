// Package build tells what this binary was made from.
package build

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/phxworker/phxworker"
)

// version is set by releases:
//
//	go build -ldflags "-X github.com/phxworker/phxworker/cmd/phxworker/build.version=v1.2.3"
var version string

// Info is what a binary was made from. What is not known is empty.
type Info struct {
	Version string // v1.2.3, or "dev"
	Commit  string // the first seven digits, with "-dirty" if files were changed
	Date    string // of the commit, 2006-01-02
	Go      string // go1.26.0
}

// Read returns what this binary was made from.
func Read() Info {
	info, _ := debug.ReadBuildInfo()
	return read(info)
}

func read(info *debug.BuildInfo) Info {
	b := Info{Version: version, Go: runtime.Version()}
	if b.Version == "" {
		b.Version = phxworker.Version()
	}
	if info == nil { // not built with modules
		return b
	}
	settings := make(map[string]string)
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	b.Commit = first(settings["vcs.revision"], 7)
	if b.Commit != "" && settings["vcs.modified"] == "true" {
		b.Commit += "-dirty"
	}
	b.Date = first(settings["vcs.time"], len("2006-01-02"))
	return b
}

func first(s string, n int) string { return s[:min(n, len(s))] }

// String returns the version, and in brackets what else is known:
// "v1.2.3 (commit abcdef0, 2026-11-20, go1.26.8, linux/amd64)".
func (i Info) String() string {
	var known []string
	if i.Commit != "" {
		known = append(known, "commit "+i.Commit)
	}
	if i.Date != "" {
		known = append(known, i.Date)
	}
	known = append(known, i.Go, runtime.GOOS+"/"+runtime.GOARCH)
	return i.Version + " (" + strings.Join(known, ", ") + ")"
}
