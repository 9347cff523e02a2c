package runner

import (
	"fmt"
	"strings"
)

// MaxSteps is how many steps a run may come to. A job is executed once for each path that leads to it, so a small plan
// can ask for more of them than there are atoms.
const MaxSteps = 10_000

// MaxVisits is how many nodes a run may come to, those without code among them.
const MaxVisits = 10 * MaxSteps

// StepLimit returns the failure of a run that came to more than a number of steps, or of nodes.
func (p *Plan) StepLimit(limit int, of string) *Failure {
	return p.stepsFailure("The run came to more than %d %s", limit, of)
}

// stepsFailure ends a run for its steps. What a plan with as many jobs came to says nothing about paths.
func (p *Plan) stepsFailure(format string, args ...any) *Failure {
	message := fmt.Sprintf(format, args...)
	if len(p.Jobs) <= MaxSteps {
		message += ": a job is executed once for each path that leads to it"
	}
	return &Failure{Reason: Kill, Type: "StepLimitError", Message: message}
}

// CheckPaths returns a failure for a plan that asks for too much: for more than [MaxSteps] where all goes well,
// whatever its conditions in JavaScript come to, or for more than [MaxVisits] ways through nodes without code. Engines
// take each of those, and nothing that they report would tell of it.
func (p *Plan) CheckPaths() *Failure {
	code := make(map[string]bool, len(p.Jobs))
	for i := range p.Jobs {
		code[p.Jobs[i].ID] = strings.TrimSpace(p.Jobs[i].Body) != ""
	}
	bare := p.ways(
		func(from string) bool { return !code[from] },
		func(_ string, onward float64) float64 { return max(onward, 1) },
	)
	for id := range bare.next {
		if n := bare.count(id); n > MaxVisits {
			return &Failure{
				Reason: Crash, Type: "ValidationError",
				Message: fmt.Sprintf("%.4g ways lead on from %s through jobs without code, over the limit of %d", n, cut(id, maxName), MaxVisits),
			}
		}
	}
	steps := p.ways(
		func(string) bool { return true },
		func(id string, onward float64) float64 {
			if code[id] {
				onward++
			}
			return onward
		},
	)
	if n := steps.count(p.Start()); n > MaxSteps {
		return p.stepsFailure("The run would come to %.15g steps if all goes well, over the limit of %d", n, MaxSteps)
	}
	return nil
}

// Start returns the id of the node to start with, empty if there is none: the one that the plan names, or else the first
// trigger, or else the first job.
func (p *Plan) Start() string {
	switch {
	case p.StartingNodeID != "":
		return p.StartingNodeID
	case len(p.Triggers) > 0:
		return p.Triggers[0].ID
	case len(p.Jobs) > 0:
		return p.Jobs[0].ID
	}
	return ""
}

// ways are the edges that are followed where all goes well, whatever is in the state.
type ways struct {
	next    map[string][]string
	worth   func(id string, onward float64) float64 // of a node, given what its edges lead to is worth together
	counted map[string]float64                      // by node; while it is counted, as if no edge left it
}

// ways returns the edges that leave the nodes that are wanted.
func (p *Plan) ways(wanted func(from string) bool, worth func(id string, onward float64) float64) ways {
	w := ways{next: make(map[string][]string), worth: worth, counted: make(map[string]float64)}
	for i := range p.Edges {
		e := &p.Edges[i]
		switch strings.TrimSpace(e.Condition) {
		case "", "always", "on_job_success":
			if from := e.Source(); wanted(from) && e.IsEnabled() {
				w.next[from] = append(w.next[from], e.TargetJobID)
			}
		}
	}
	return w
}

// count returns what a node is worth. It does not recurse: a plan may be a line of a million nodes.
func (w ways) count(id string) float64 {
	type turn struct {
		id   string
		next int // the edge to follow
		sum  float64
	}
	if n, known := w.counted[id]; known {
		return n
	}
	stack := []turn{{id: id}}
	for {
		top := &stack[len(stack)-1]
		if _, known := w.counted[top.id]; !known {
			w.counted[top.id] = w.worth(top.id, 0)
		}
		if top.next < len(w.next[top.id]) {
			to := w.next[top.id][top.next]
			if n, known := w.counted[to]; known {
				top.sum += n
				top.next++
			} else {
				stack = append(stack, turn{id: to})
			}
			continue
		}
		n := w.worth(top.id, top.sum)
		w.counted[top.id] = n
		if stack = stack[:len(stack)-1]; len(stack) == 0 {
			return n
		}
	}
}
