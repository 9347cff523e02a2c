package options

import (
	"regexp"
	"slices"
	"strings"
)

// Counterpart is the version of OpenFn's ws-worker whose options and variables are known, with
// those of the versions before it.
const Counterpart = "1.29.2"

// unknownVariable is the message of a variable that does nothing.
const unknownVariable = "variable is not known"

// ofWorkers is how the names of a worker's own variables begin.
const ofWorkers = "WORKER_"

// besides are variables of the worker's commands that are no options of a worker.
var besides = []string{"WORKER_HTTP_URL"}

// ofServices matches what Kubernetes gives every container about a service that is called worker.
var ofServices = regexp.MustCompile(`^WORKER_(SERVICE_HOST|SERVICE_PORT|PORT_\d+_(TCP|UDP|SCTP))`)

// UnknownVariables tells of the variables, "NAME=value" each, that are called like the worker's and
// that it does not read: a name with a mistake in it is a setting that is silently off.
func UnknownVariables(environ []string) []Notice {
	known := slices.Clone(besides)
	for _, o := range Table() {
		known = append(known, o.Env...)
	}
	var notices []Notice
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, ofWorkers) || value == "" || slices.Contains(known, name) || ofServices.MatchString(name) {
			continue
		}
		notices = append(notices, Notice{Message: unknownVariable, Option: name, Reason: whyUnknown(name, known)})
	}
	slices.SortFunc(notices, func(a, b Notice) int { return strings.Compare(a.Option, b.Option) })
	return notices
}

// quoted tells of the variables whose values have quotes around them. A shell takes these off, and what
// reads an env file for Docker or Kubernetes does not.
func (v *Values) quoted() (notices []Notice) {
	for _, o := range Table() {
		set := v.byKey[o.Key()]
		for _, quote := range []string{`"`, "'"} {
			if n := len(set.text); set.rank == byVariable && n > 1 && strings.HasPrefix(set.text, quote) && strings.HasSuffix(set.text, quote) {
				notices = append(notices, Notice{
					Message: doubtful, Option: set.from,
					Reason: "has quotes around its value, which are part of it: take them out, for Docker leaves those of an env file in",
				})
			}
		}
	}
	return notices
}

// Explain returns an error of the options with what may be behind it: a variable that is set and
// not known.
func Explain(err error, environ []string) error {
	problems := []string{err.Error()}
	for _, n := range UnknownVariables(environ) {
		problems = append(problems, n.Option+" is set and is not known: "+n.Reason)
	}
	return &Error{Problem: strings.Join(problems, "; ")}
}

func whyUnknown(name string, known []string) string {
	if name == "WORKER_RUNS_PRIVATE_KEY" || name == "WORKER_SECRETS" {
		return "it is the server's, and a secret that no worker needs: take it out"
	}
	var rests []string // what all have in common makes none more alike
	for _, k := range known {
		if rest, ok := strings.CutPrefix(k, ofWorkers); ok {
			rests = append(rests, rest)
		}
	}
	if meant := Closest(strings.TrimPrefix(name, ofWorkers), rests); meant != "" {
		return "did you mean " + ofWorkers + meant + "?"
	}
	return "it is neither one of ws-worker's, up to " + Counterpart + ", nor of this worker's own"
}
