package packages

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/internal/owned"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/js/chunk"
	"github.com/phxworker/phxworker/runner/npm"
)

// record is what was found out about an adaptor, and where its chunks are.
type record struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Node is why it is for Node; empty if it may be executed in the embedded engine.
	Node string `json:"node,omitempty"`
	// Made is [judgesVersion] of what it was prepared for.
	Made string `json:"made"`
	// Integrity is that of all its packages together.
	Integrity string   `json:"integrity"`
	Entry     string   `json:"entry"`
	Exports   []string `json:"exports"`
	// Chunks are the ids of all that it reaches.
	Chunks []string `json:"chunks"`
	// Builtins tells that it asks for some of Node's.
	Builtins bool `json:"builtins,omitempty"`
	// LoadMS is how long all of it took to load, in milliseconds of a processor.
	LoadMS int64 `json:"load_ms"`
	// Judged is when that was measured.
	Judged time.Time `json:"judged,omitzero"`
}

// slowFor is how long an adaptor that takes long to load is believed to.
const slowFor = 24 * time.Hour

// tooSlow reports whether an adaptor is for Node since it takes long to load. Another time, or on another machine, it may not.
func (r record) tooSlow() bool { return r.Node != "" && r.LoadMS > mostLoad.Milliseconds() }

func (r record) outdated() bool { return r.tooSlow() && time.Since(r.Judged) > slowFor }

// mark is what a run has shown of an adaptor. It has a file of its own beside the record, for another worker may be writing that.
type mark struct {
	Node string `json:"node"`
	Made string `json:"made"`
}

const (
	recordSuffix = ".json"
	markSuffix   = ".unfit"
)

func (p *Provider) recordsDir() string { return filepath.Join(p.cfg.Dir, "adaptors") }

func (p *Provider) recordFile(name, version, suffix string) string {
	return filepath.Join(p.recordsDir(), strings.ReplaceAll(name, "/", "+")+"@"+version+suffix)
}

// readRecord returns what was found out about an adaptor by a program that makes the same chunks.
func (p *Provider) readRecord(name, version string) (found record, ok bool) {
	if !p.read(p.recordFile(name, version, recordSuffix), &found) || found.Name != name || found.Version != version || found.Made != judgesVersion() {
		return found, false
	}
	found.Node = cmp.Or(p.readMark(name, version), found.Node)
	return found, true
}

// readMark returns why a run has shown an adaptor to be for Node, "" if none has.
func (p *Provider) readMark(name, version string) string {
	var m mark
	if !p.read(p.recordFile(name, version, markSuffix), &m) || m.Made != judgesVersion() {
		return ""
	}
	return m.Node
}

// read reads a file of the folder, if that is nobody else's.
func (p *Provider) read(file string, value any) bool {
	info, err := os.Stat(p.cfg.Dir)
	if err != nil || info.Mode().Perm()&0o077 != 0 || owned.By(info) != os.Geteuid() {
		return false
	}
	text, err := os.ReadFile(file) //nolint:gosec // name and version were checked
	return err == nil && json.Unmarshal(text, value) == nil
}

// rules is how often the rules of verdicts have changed.
const rules = "3"

// judgesVersion changes with all that a verdict depends on besides the adaptor: its chunks, the rules, and what is verified.
func judgesVersion() string {
	sum := sha256.Sum256(verifiedText)
	return rules + " " + chunk.Version() + " " + hex.EncodeToString(sum[:])
}

// write keeps what was found out. If that fails, it is found out again.
func (p *Provider) write(name, version, suffix string, value any) {
	text, err := json.Marshal(value)
	if err == nil {
		err = os.MkdirAll(p.recordsDir(), 0o700)
	}
	if err == nil {
		err = replace(p.recordFile(name, version, suffix), text)
	}
	if err != nil {
		p.cfg.Logger.Debug("what was found out about an adaptor was not kept", "package", name+"@"+version, "error", err)
	}
}

// replace writes a file at once: who reads it sees all of it or nothing.
func replace(path string, data []byte) error {
	begun, err := os.CreateTemp(filepath.Dir(path), ".begun-*")
	if err != nil {
		return err
	}
	defer os.Remove(begun.Name()) // fails when it has become path
	_, err = begun.Write(data)
	if closed := begun.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(begun.Name(), path)
}

// Verdict is what was found out about an adaptor.
type Verdict struct {
	Name, Version string
	// Node is why it is for Node; empty if it may be executed in the embedded engine.
	Node string
	// Verified tells that it was compared with Node.
	Verified bool
}

// List returns what was found out, by name and version.
func (p *Provider) List() []Verdict {
	entries, _ := os.ReadDir(p.recordsDir())
	var all []Verdict
	for _, entry := range entries {
		base, ok := strings.CutSuffix(entry.Name(), recordSuffix)
		at := strings.LastIndexByte(base, '@')
		if !ok || at <= 0 || strings.HasPrefix(base, js.Builtins) {
			continue
		}
		if found, ok := p.readRecord(strings.ReplaceAll(base[:at], "+", "/"), base[at+1:]); ok {
			all = append(all, Verdict{found.Name, found.Version, found.Node, isVerified(found.Name + "@" + found.Version)})
		}
	}
	slices.SortFunc(all, func(a, b Verdict) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), npm.Compare(a.Version, b.Version))
	})
	return all
}

// newest returns the newest version that was prepared of what a specifier asks the latest of, "" for none.
func (p *Provider) newest(specifier string) (version string) {
	name := trimLatest(specifier)
	if strings.LastIndexByte(name, '@') > 0 {
		return ""
	}
	for _, one := range p.List() {
		if one.Name == name {
			version = one.Version
		}
	}
	return version
}

func trimLatest(specifier string) string { return strings.TrimSuffix(specifier, "@latest") }
