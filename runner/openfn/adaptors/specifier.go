package adaptors

import (
	"regexp"
	"strings"
)

// A specifier names a package as a plan does: "@openfn/language-http@7.2.10".
type specifier struct {
	name    string
	version string // an exact version or a tag of npm's
}

const (
	latestTag = "latest"
	localTag  = "local" // not npm's: the package in the monorepo
)

// What npm accepts as the name of a package, but for the capitals that it no
// longer does. Names become folders and words of a command line: no dots at the
// start, no dash there either.
var (
	namePattern    = regexp.MustCompile(`^(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*$`)
	versionPattern = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
	tagPattern     = regexp.MustCompile(`^[A-Za-z][0-9A-Za-z._-]*$`)
)

// npm's own bound; that of versions is ours.
const maxName, maxVersion = 214, 128

func parse(text string) (specifier, error) {
	s := specifier{name: text}
	if i := strings.LastIndexByte(text, '@'); i > 0 {
		s.name, s.version = text[:i], text[i+1:]
	} else {
		s.version = latestTag
	}
	switch {
	case len(s.name) > maxName || !namePattern.MatchString(s.name):
		return s, &InstallError{Specifier: text, Reason: "this is not the name of an npm package"}
	case len(s.version) > maxVersion || (!s.exact() && !tagPattern.MatchString(s.version)):
		return s, &InstallError{Specifier: text, Reason: "the version must be exact, such as 1.2.3, or a tag, such as latest"}
	}
	return s, nil
}

// exact reports whether the version is one, not a tag.
func (s specifier) exact() bool { return versionPattern.MatchString(s.version) }

func (s specifier) String() string { return s.name + "@" + s.version }
