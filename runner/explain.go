package runner

import (
	"fmt"
	"strings"
)

// explain logs what a failure of the plan, in the words of OpenFn's runtime, leaves out: which edge it is about, and
// between which jobs, by their names.
func (r *Run) explain(failure *Failure) {
	if failure == nil || r.Plan == nil {
		return
	}
	var lines []string
	switch failure.Type {
	case "ValidationError":
		lines = append(r.Plan.broken(), r.Plan.blamed(failure.Message)...)
	case "Error":
		lines = r.Plan.blamed(failure.Message)
	case "EdgeConditionError":
		lines = r.Plan.conditionsBehind(r.openJobs())
	}
	for _, line := range lines {
		r.Log(TextLine("warn", "R/T", line))
	}
}

// openJobs returns the ids of the jobs whose steps have not been completed.
func (r *Run) openJobs() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, step := range r.open {
		ids = append(ids, step.jobID)
	}
	return ids
}

// maxExplained bounds the lines: a plan may have very many edges.
const maxExplained = 10

// broken tells of the edges, and of the start, that are about nodes which the plan does not have.
func (p *Plan) broken() (lines []string) {
	labels := p.labels()
	if start := p.Start(); labels[start] == "" {
		lines = append(lines, fmt.Sprintf("The run starts with %.100q, which the plan does not have", start))
	}
	for i := range p.Edges {
		e := &p.Edges[i]
		if len(lines) < maxExplained && e.IsEnabled() && labels[e.Source()] != "" && labels[e.TargetJobID] == "" {
			lines = append(lines, fmt.Sprintf("The edge from %s leads to %.100q, which is no job of the plan", labels[e.Source()], e.TargetJobID))
		}
	}
	return lines
}

// blamed tells of the edge that a message names by the ids of its nodes: one that closes a circle, or whose condition
// is no JavaScript. Of several between the same nodes it is not known which.
func (p *Plan) blamed(message string) (lines []string) {
	circle, isCircle := strings.CutPrefix(message, "Circular dependency: ")
	condition, isCondition := strings.CutPrefix(message, "Failed to compile edge condition ")
	if !isCircle && !isCondition {
		return nil
	}
	labels := p.labels()
	for i := range p.Edges {
		e := &p.Edges[i]
		switch from, to := e.Source(), e.TargetJobID; {
		case !e.IsEnabled():
		case isCircle && circle == from+" <-> "+to:
			return []string{fmt.Sprintf("The edge from %s to %s closes a circle", labels[from], labels[to])}
		case isCondition && len(lines) < maxExplained && strings.HasPrefix(condition, from+"->"+to+" ("):
			lines = append(lines, fmt.Sprintf("The condition on the edge from %s to %s was compiled: %.200s", labels[from], labels[to], strings.TrimSpace(e.Condition)))
		}
	}
	return lines
}

// conditionsBehind tells which conditions were looked at when one of them failed behind a job.
func (p *Plan) conditionsBehind(jobs []string) (lines []string) {
	labels := p.labels()
	for _, job := range jobs {
		for i := range p.Edges {
			e := &p.Edges[i]
			switch condition := strings.TrimSpace(e.Condition); condition {
			case "", "always", "on_job_success", "on_job_failure":
			default:
				if len(lines) < maxExplained && e.Source() == job && e.IsEnabled() {
					lines = append(lines, fmt.Sprintf("The condition on the edge from %s to %s was looked at: %.200s", labels[job], labels[e.TargetJobID], condition))
				}
			}
		}
	}
	return lines
}

// labels returns what people know the nodes by, with their quotes.
func (p *Plan) labels() map[string]string {
	labels := make(map[string]string, len(p.Jobs)+len(p.Triggers))
	for i := range p.Triggers {
		labels[p.Triggers[i].ID] = fmt.Sprintf("the trigger %.100q", p.Triggers[i].ID)
	}
	for i := range p.Jobs {
		labels[p.Jobs[i].ID] = fmt.Sprintf("%.100q", p.Jobs[i].Label())
	}
	return labels
}
