package options

import (
	"fmt"
	"slices"

	"github.com/phxworker/phxworker"
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
)

// Whose effect depends on other options: why they have none.
const (
	notBatched   = "it has no effect without --batch-logs"
	notGiven     = "it has no effect without --extensions release: no run is given back"
	notCounted   = "it has no effect without --extensions attempt: the server does not tell how often a run was tried"
	notServed    = "nothing is served, for --port is off"
	notProcesses = "the engine js has no processes; its jobs are executed within the worker"
	notChecked   = "only an engine that is a command is checked when the worker starts; others start with the first run, and a failure is that run's"
)

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
		if !s.Worker.RefuseUnsuitable {
			why["accept-adaptors"] = notGiven
		}
	}
	if !offers("attempt") {
		why["max-attempts"] = notCounted
	}
	if s.HTTP.Port == portOff {
		why["host"], why["http-token"] = notServed, notServed
	}
	if s.Engine.Name == "js" {
		why["require-fences"] = notProcesses
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
