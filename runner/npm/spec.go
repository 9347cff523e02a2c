package npm

import (
	"fmt"
	"regexp"
	"strings"

	"deps.dev/util/semver"
)

// A spec is what a dependency asks for: a range, a version or a tag of a package, which
// may have another name than the dependency.
type spec struct {
	name   string // of the package in its registry
	text   string
	tag    string        // unless it is a range
	ranges []*constraint // one of which has to match
	exact  string        // the version, if it is one
}

type constraint = semver.Constraint

var (
	namePattern = regexp.MustCompile(`^(@[A-Za-z0-9~-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*$`)
	tagPattern  = regexp.MustCompile(`^[A-Za-z][0-9A-Za-z._-]*$`)
	exactly     = regexp.MustCompile(`^=?v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)(?:\+[0-9A-Za-z.-]+)?$`)
	// hyphens are two versions with a hyphen between them, of which the second may be
	// cut short. The library takes "1.2 - 1" for a contradiction, and npm does not.
	hyphens = regexp.MustCompile(`^\s*(\S+)\s+-\s+(\S+)\s*$`)
)

const (
	maxName = 214 // npm's own
	maxSpec = 1000
)

// validName reports whether text can be the name of a package, which becomes the names of
// folders.
func validName(text string) bool {
	return len(text) <= maxName && namePattern.MatchString(text) && text != "node_modules"
}

// parseSpec reads what a dependency called name asks for. tag is what an empty text means.
func parseSpec(name, text string) (spec, error) {
	s := spec{name: name, text: strings.TrimSpace(text)}
	if alias, ok := strings.CutPrefix(s.text, "npm:"); ok {
		s.name, s.text = alias, ""
		if at := strings.LastIndexByte(alias, '@'); at > 0 {
			s.name, s.text = alias[:at], strings.TrimSpace(alias[at+1:])
		}
	}
	if !validName(name) || !validName(s.name) {
		return s, &Error{Kind: Unsupported, Package: clip(name), Reason: "this is not the name of an npm package"}
	}
	if len(s.text) > maxSpec {
		return s, &Error{Kind: Unsupported, Package: s.name, Reason: fmt.Sprintf("a range of %d characters is not read", len(s.text))}
	}
	if found := exactly.FindStringSubmatch(s.text); found != nil {
		s.exact = found[1]
	}
	if ranges, err := parseRange(s.text); err == nil {
		s.ranges = ranges
		return s, nil
	}
	if tagPattern.MatchString(s.text) {
		s.tag = s.text
		return s, nil
	}
	return s, &Error{Kind: Unsupported, Package: s.name + "@" + clip(s.text), Reason: "it does not come from a registry, and nothing else is installed here"}
}

// parseRange reads a range. Alternatives are taken one by one, as npm does: an early
// version counts only for the alternative that names one.
func parseRange(text string) ([]*constraint, error) {
	var all []*constraint
	for alternative := range strings.SplitSeq(text, "||") {
		c, err := semver.NPM.ParseConstraint(hyphens.ReplaceAllString(alternative, ">=$1 <=$2"))
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Compare orders versions, as npm does.
func Compare(a, b string) int { return semver.NPM.Compare(a, b) }

// any reports whether all versions will do.
func (s spec) any() bool { return s.tag == "" && (s.text == "" || s.text == "*") }

// matches reports whether a version will do. For a tag, npm takes what is there.
func (s spec) matches(version string) bool {
	if s.tag != "" || s.any() {
		return true
	}
	v, err := semver.NPM.Parse(version)
	return err == nil && s.allows(v)
}

// allows is matches where early versions are none of "any".
func (s spec) allows(v *semver.Version) bool {
	for _, c := range s.ranges {
		if c.MatchVersion(v) {
			return true
		}
	}
	return false
}

func (s spec) String() string {
	if s.text == "" {
		return s.name
	}
	return s.name + "@" + clip(s.text)
}

// clip shortens what others wrote, for a line that people read, and quotes what is not
// plain.
func clip(text string) string {
	if len(text) > 100 {
		text = text[:100] + "…"
	}
	if quoted := fmt.Sprintf("%q", text); quoted[1:len(quoted)-1] != text {
		return quoted
	}
	return text
}
