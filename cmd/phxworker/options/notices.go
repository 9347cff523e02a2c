package options

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/owned"
	"github.com/phxworker/phxworker/runner/egress"
)

// Notice tells of an option that was set and does not do what it did once, or
// does elsewhere, or perhaps not what was meant.
type Notice struct {
	Message string // static
	Option  string // as it was set: a flag, a variable or a line of a file
	Reason  string
}

const (
	noEffect   = "option has no effect"
	deprecated = "option is deprecated"
	doubtful   = "option is doubtful"
	unused     = "option is not used"
	exposed    = "config file can be read by everybody"
	openFile   = "file with a secret can be read by everybody"
	onShow     = "a secret is on the command line"
	shared     = "folder can be written by others"
	partly     = "option does not hold for all runs"
)

// Whose effect depends on other options: why they have none.
const (
	notBatched   = "it has no effect without --batch-logs"
	notGiven     = "it has no effect without --extensions release: no run is returned"
	notCounted   = "it has no effect without --extensions attempt: the server does not tell how often a run was tried"
	notGrouped   = "it has no effect without --cgroups"
	notServed    = "nothing is served, for --port is off"
	notProcesses = "the engine js has no processes; its jobs are executed within the worker"
	notChecked   = "only an engine that is a command is checked when the worker starts; others start with the first run, and a failure is that run's"
)

// Whose jobs connect by themselves, by the name of the engine.
var connects = map[string]string{
	"auto":   "runs that need the OpenFn engine are executed in Node, whose jobs connect",
	"openfn": "jobs are executed in Node, and connect",
	command:  "the engine is a command, which connects",
}

// notices tells of the options that were set to something other than what
// happens here anyway, and of those that are doubtful.
func (r *reader) notices(s *Settings) []Notice {
	var notices []Notice
	why := map[string]string{}
	if r.byKey["batch-logs"].text != "true" {
		why["batch-interval"], why["batch-limit"] = notBatched, notBatched
	}
	offers := func(name string) bool {
		return slices.Contains(s.Worker.Extensions, name) || slices.Contains(s.Worker.Extensions, phxworker.AllExtensions)
	}
	if !offers("release") {
		why["prefetch"] = notGiven
		if !s.Worker.Hooks.RefuseUnsuitable {
			why["accept-adaptors"] = notGiven
		}
	}
	if !offers("attempt") {
		why["max-attempts"] = notCounted
	}
	if s.HTTP.Port == portOff {
		why["host"], why["http-token"], why["http-token-file"] = notServed, notServed, notServed
	}
	if s.Engine.Name == "js" {
		why["require-fences"], why["cgroups"] = notProcesses, notProcesses
	}
	if !s.Engine.Cgroups {
		why["cgroup-memory-overhead-mb"] = notGrouped
	}
	if s.Engine.Name != command {
		why["engine-validation-timeout-ms"], why["engine-validation-retries"] = notChecked, notChecked
	}
	for _, o := range Table() {
		v, ok := r.set(o.Key())
		switch reason := o.NoEffect + why[o.Key()]; {
		case !ok:
		case o.Key() == "socket-timeout":
			notices = append(notices, Notice{Message: deprecated, Option: v.from, Reason: "it is called --message-timeout now"})
		case reason == "" || v.text == o.Kind.normal(o.Default):
		default:
			notices = append(notices, Notice{Message: noEffect, Option: v.from, Reason: reason})
		}
	}
	for _, key := range groupKeys {
		if by, beaten := r.beaten(key); beaten && r.byKey[key].rank > byDefault {
			notices = append(notices, Notice{
				Message: unused, Option: r.byKey[key].from, Reason: by.from + " says what slots there are",
			})
		}
	}
	if grace, ok := r.set("grace"); ok && s.Worker.Grace < s.Worker.Limits.RunTimeout {
		notices = append(notices, Notice{
			Message: doubtful, Option: grace.from,
			Reason: fmt.Sprintf("a run may take %v, and %v after a signal those under way are cancelled", s.Worker.Limits.RunTimeout, s.Worker.Grace),
		})
	}
	notices = append(notices, r.egressNotices(s.Engine.Name)...)
	notices = append(notices, r.sharedFolders(s)...)
	return append(notices, r.exposures()...)
}

// egressNotices tell where jobs may connect to all the same, and of hosts that are doubtful.
func (r *reader) egressNotices(engine string) (notices []Notice) {
	if who := connects[engine]; who != "" {
		for _, key := range []string{"egress", "egress-limit"} {
			if v, ok := r.set(key); ok && !slices.Equal(r.list(key), []string{"any"}) { // which refuses nothing
				notices = append(notices, Notice{Message: partly, Option: v.from, Reason: who + " without the worker, to whatever the network lets them: take --engine js, or the network's own means (docs/security.md)"})
			}
		}
	}
	return append(notices, r.doubtfulHosts()...)
}

// doubtfulHosts tells of names of hosts that are nearly those of classes, which nobody could else see to be taken for hosts.
func (r *reader) doubtfulHosts() (notices []Notice) {
	classes := []string{"localhost"}
	for _, class := range egress.Named() {
		classes = append(classes, string(class))
	}
	v := r.byKey["egress"]
	for _, item := range r.list("egress") {
		item = strings.ToLower(strings.TrimPrefix(item, "!"))
		if class := Closest(item, classes); class != "" && class != item {
			notices = append(notices, Notice{Message: doubtful, Option: v.from, Reason: fmt.Sprintf("%q is taken for the name of a host: did you mean the class %q?", item, class)})
		}
	}
	return notices
}

// exposures tells of secrets that other users of the machine can read.
func (r *reader) exposures() (notices []Notice) {
	for _, o := range Table() {
		if v := r.byKey[o.Key()]; o.Secret && v.rank == byFlag && v.text != mockSecret {
			notices = append(notices, Notice{
				Message: onShow, Option: v.from,
				Reason: "every user of this machine can read it there: set " + strings.Join(quieter(o), " or ") + " in its place",
			})
		}
	}
	for _, v := range r.open {
		notices = append(notices, Notice{Message: openFile, Option: v.from, Reason: "chmod o= " + v.text})
	}
	if r.file != nil && r.file.open {
		for _, o := range Table() {
			if _, ok := r.file.lookup(o); ok && o.Secret {
				notices = append(notices, Notice{
					Message: exposed, Option: r.file.path,
					Reason: fmt.Sprintf("its %s is a secret: chmod o= %s", o.Key(), r.file.path),
				})
			}
		}
	}
	return notices
}

// quieter returns what else a secret can be set with.
func quieter(o Option) []string {
	others := o.Env[:1:1]
	for _, other := range Table() {
		if other.Key() == o.Key()+"-file" {
			others = append(others, other.Name())
		}
	}
	return others
}

// sharedFolders tells of the folders with code that others than the worker may change.
func (r *reader) sharedFolders(s *Settings) []Notice {
	if s.Engine.Name != "auto" && s.Engine.Name != "openfn" {
		return nil
	}
	var notices []Notice
	for _, key := range []string{repoKey, "monorepo-dir"} {
		dir, ok := r.set(key)
		if !ok {
			continue
		}
		if by := owned.ChangedBy(dir.text); by != "" {
			notices = append(notices, Notice{
				Message: shared, Option: dir.from,
				Reason: fmt.Sprintf("others may write into %s, and what lies there is executed with the credentials of runs: take one that only the worker's user may change", by),
			})
		}
	}
	return notices
}
