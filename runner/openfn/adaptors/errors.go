package adaptors

import (
	"slices"
	"strings"
)

// InstallError is why a package is not there: npm could not install it, or
// nothing can be installed here.
type InstallError struct {
	// Specifier is what was asked for.
	Specifier string
	// Reason begins with one line for people. Lines of npm's own may follow.
	Reason string
}

func (e *InstallError) Error() string { return "Error installing " + e.Specifier + ": " + e.Reason }

// npm's codes of what people can do something about. The last word of an npm
// code line is the code.
var explanations = []struct{ code, text string }{
	{"ETARGET", "npm has no such version"},
	{"E404", "npm knows no such package or version, or may not give it out"},
	{"E401", "npm's registry wants other credentials"},
	{"E403", "npm's registry refuses to give this package out"},
	{"ENOSPC", "the disk is full"},
	{"EACCES", "the folder for adaptors cannot be written to"},
	{"EROFS", "the folder for adaptors cannot be written to"},
}

// missing is our code for an npm that is not there.
const missing = "missing"

// unreachable are npm's codes of a network that is not there.
var unreachable = []string{"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH", "ERR_SOCKET_TIMEOUT", "ENOTCACHED"}

// npmFailure is what npm said as it failed.
type npmFailure struct {
	code  string // as in "npm error code E404", empty if npm told none
	lines []string
}

// readFailure picks npm's words out of its standard error.
func readFailure(stderr string) npmFailure {
	var f npmFailure
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		words, ok := strings.CutPrefix(line, "npm error")
		if !ok {
			words, ok = strings.CutPrefix(line, "npm ERR!") // npm before 10.6
		}
		// Where the log of npm lies says something about this machine and
		// nothing to the person who reads a run's log.
		if !ok || strings.TrimSpace(words) == "" || strings.Contains(words, "complete log of this run") {
			continue
		}
		if code, ok := strings.CutPrefix(words, " code "); ok && f.code == "" {
			f.code = strings.TrimSpace(code)
		}
		f.lines = append(f.lines, line)
	}
	return f
}

// offline reports whether npm could not ask its registry.
func (f npmFailure) offline() bool {
	return f.code == missing || slices.Contains(unreachable, f.code)
}

// reason is the line for people, and npm's.
func (f npmFailure) reason() string {
	text := "npm failed"
	if f.offline() {
		text = "npm's registry cannot be reached from this worker"
	}
	for _, e := range explanations {
		if f.code == e.code {
			text = e.text
		}
	}
	return strings.Join(append([]string{text}, f.lines...), "\n")
}
