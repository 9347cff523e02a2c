package adaptors

import (
	"regexp"
	"strings"
)

// InstallError is why a package is not there: npm could not install it, or
// nothing can be installed here.
type InstallError struct {
	// Specifier is what was asked for.
	Specifier string
	// Reason begins with one line for people. Lines of npm's own may follow.
	Reason string
	// Unable tells that the reason lies in this machine, its network or its registry,
	// and not in what was asked for: other packages would not be installed either.
	Unable bool
	// NoNPM tells that there is no npm, and Closed that the folder takes no writes.
	NoNPM, Closed bool
}

func (e *InstallError) Error() string { return "Error installing " + e.Specifier + ": " + e.Reason }

// npm's codes of what people can do something about. The last word of an npm
// code line is the code. A registry says 403 of single packages that are not allowed.
var explanations = []struct {
	code, text string
	unable     bool // see [InstallError]
}{
	{"ETARGET", "npm has no such version", false},
	{"E404", "npm knows no such package or version, or may not give it out", false},
	{"E403", "npm's registry refuses to give this package out", false},
	{"ENOTCACHED", "npm is set to be offline, and the package is not installed", false},
	{"E401", "npm's registry wants other credentials", true},
	{"ENEEDAUTH", "npm's registry wants credentials", true},
	{"ENOSPC", "no space left on the disk", true},
	{"EDQUOT", "no space left on the disk for this user", true},
	{"EFBIG", "files of that size are not allowed here", true},
	{"EACCES", "the folder for adaptors cannot be written to", true},
	{"EPERM", "the folder for adaptors cannot be written to", true},
	{"EROFS", "the folder for adaptors cannot be written to", true},
	{"EMFILE", "too many files are open", true},
	{"ENFILE", "too many files are open", true},
	{"ENOMEM", "no memory left", true},
	{"EAGAIN", "no more processes can be started", true},
	{"EIO", "the disk has a fault", true},
}

// missing is our code for an npm that is not there.
const missing = "missing"

// unreachable are npm's codes of a network that is not there, of certificates that are
// not trusted, and of a registry that is ill.
var unreachable = regexp.MustCompile(`^(ENOTFOUND|EAI_AGAIN|ECONN\w+|E\w*TIME\w*|ENETUNREACH|EHOSTUNREACH|EPIPE|ERR_SOCKET\w*|ERR_TLS\w*|ERR_SSL\w*|EPROTO|\w*CERT\w*|\w*_SIGNATURE|E429|E5\d\d)$`)

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
		if !ok || strings.TrimSpace(words) == "" || strings.Contains(words, "complete log of this run") || isTrace(words) {
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
	return f.code == missing || f.code == "ENOTCACHED" || unreachable.MatchString(f.code)
}

// unable is that of the [InstallError]. An npm that is set to be offline is so on
// purpose, and what has no code is a program that was killed, or is broken.
func (f npmFailure) unable() bool {
	for _, e := range explanations {
		if f.code == e.code {
			return e.unable
		}
	}
	return len(f.lines) == 0 || f.offline()
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
