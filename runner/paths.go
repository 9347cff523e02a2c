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
func StepLimit(limit int, of string) *Failure {
	return &Failure{
		Reason: Kill, Type: "StepLimitError",
		Message: fmt.Sprintf("The run came to more than %d %s: a job is executed once for each path that leads to it, and there are too many", limit, of),
	}
}

// CheckPaths returns a failure for a plan in which the ways through nodes without code are more than [MaxVisits]. Engines
// take each of them, and nothing that they report would tell of it.
func (p *Plan) CheckPaths() *Failure {
	w := p.ways()
	for id := range w.next {
		if n := w.count(id); n > MaxVisits {
			return &Failure{
				Reason: Crash, Type: "ValidationError",
				Message: fmt.Sprintf("%.4g ways lead on from %s through jobs without code, over the limit of %d", n, cut(id, maxName), MaxVisits),
			}
		}
	}
	return nil
}

// ways are the edges between nodes without code that are followed in any case.
type ways struct {
	next    map[string][]string
	counted map[string]float64 // the ways that lead on from a node; 1 while they are counted
}

func (p *Plan) ways() ways {
	code := make(map[string]bool, len(p.Jobs))
	for i := range p.Jobs {
		code[p.Jobs[i].ID] = strings.TrimSpace(p.Jobs[i].Body) != ""
	}
	w := ways{next: make(map[string][]string), counted: make(map[string]float64)}
	for i := range p.Edges {
		e := &p.Edges[i]
		switch strings.TrimSpace(e.Condition) {
		case "", "always", "on_job_success":
			if from := e.Source(); !code[from] && e.IsEnabled() {
				w.next[from] = append(w.next[from], e.TargetJobID)
			}
		}
	}
	return w
}

// count returns how many ways lead on from a node. It does not recurse: a plan may be a line of a million nodes.
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
			w.counted[top.id] = 1
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
		n := max(top.sum, 1)
		w.counted[top.id] = n
		if stack = stack[:len(stack)-1]; len(stack) == 0 {
			return n
		}
	}
}
