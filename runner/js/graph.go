package js

import (
	"fmt"
	"strings"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
)

// graph is a plan, compiled.
type graph struct {
	nodes map[string]*node
	start *node
}

// node is a job, or a trigger. A job without code is nothing but a trigger.
type node struct {
	id     string
	job    *runner.Job     // nil for a trigger
	module *compile.Module // nil for what executes nothing
	edges  []*edge         // in the order of the plan, without the disabled ones
}

type edge struct {
	from, to *node
	kind     condition
	// function is the text of a JavaScript function, of an Expression.
	function string
}

// condition says when an edge is followed.
type condition int

const (
	always condition = iota
	onSuccess
	onFailure
	expression
)

func (c condition) String() string {
	switch c {
	case always:
		return "always"
	case onSuccess:
		return "on_job_success"
	case onFailure:
		return "on_job_failure"
	}
	return "expression"
}

func conditionOf(text string) condition {
	switch text {
	case "", "always":
		return always
	case "on_job_success":
		return onSuccess
	case "on_job_failure":
		return onFailure
	}
	return expression
}

// newGraph compiles all jobs, reached or not, and checks that the plan can be
// followed. An error is a [*runner.Failure].
func newGraph(plan *runner.Plan, common compile.Adaptor) (*graph, error) {
	g := &graph{nodes: make(map[string]*node, len(plan.Jobs)+len(plan.Triggers))}
	for i := range plan.Triggers {
		id := plan.Triggers[i].ID
		g.nodes[id] = &node{id: id}
	}
	for i := range plan.Jobs {
		n, err := compileJob(&plan.Jobs[i], common)
		if err != nil {
			return nil, err
		}
		g.nodes[n.id] = n
	}
	if err := g.findStart(plan); err != nil {
		return nil, err
	}
	return g, g.connect(plan.Edges)
}

func compileJob(job *runner.Job, common compile.Adaptor) (*node, error) {
	n := &node{id: job.ID, job: job}
	if job.Body == "" {
		return n, nil
	}
	source := compile.Job{Name: job.Label(), Body: job.Body}
	if name, _ := runner.SplitAdaptor(job.Adaptor); name == commonAdaptor {
		source.Adaptors = []compile.Adaptor{common}
	}
	var err error
	if n.module, err = compile.Compile(source); err != nil {
		return nil, &runner.Failure{Reason: runner.Crash, Type: "CompileError", Message: err.Error()}
	}
	return n, nil
}

// findStart picks the node to start with: the one that the plan names, or else
// the first trigger, or else the first job.
func (g *graph) findStart(plan *runner.Plan) error {
	switch {
	case plan.StartingNodeID != "":
		g.start = g.nodes[plan.StartingNodeID]
		if g.start == nil {
			return invalidPlan("Could not find start job: %s", plan.StartingNodeID)
		}
	case len(plan.Triggers) > 0:
		g.start = g.nodes[plan.Triggers[0].ID]
	case len(plan.Jobs) > 0:
		g.start = g.nodes[plan.Jobs[0].ID]
	default:
		return &runner.Failure{Reason: runner.Crash, Type: "TypeError", Message: "The plan has no job to start with"}
	}
	return nil
}

func (g *graph) connect(edges []runner.Edge) error {
	for i := range edges {
		from := g.nodes[edges[i].Source()]
		if from == nil || !edges[i].IsEnabled() {
			continue
		}
		to := g.nodes[edges[i].TargetJobID]
		if to == nil {
			return invalidPlan("Cannot find job: %s", edges[i].TargetJobID)
		}
		e := &edge{from: from, to: to, kind: conditionOf(strings.TrimSpace(edges[i].Condition))}
		from.edges = append(from.edges, e)
		if e.kind != expression {
			continue
		}
		var err error
		if e.function, err = compile.Condition(edges[i].Condition); err != nil {
			return &runner.Failure{
				Reason: runner.Crash, Type: "Error",
				Message: fmt.Sprintf("Failed to compile edge condition %s->%s (%s)", from.id, to.id, conditionMessage(err)),
			}
		}
	}
	return g.checkCycles(edges)
}

// checkCycles walks from every node; a node that is met again while it is being
// walked closes a cycle.
func (g *graph) checkCycles(edges []runner.Edge) error {
	walking, walked := make(map[*node]bool), make(map[*node]bool)
	var walk func(n *node) error
	walk = func(n *node) error {
		if walked[n] {
			return nil
		}
		walking[n] = true
		for _, e := range n.edges {
			if walking[e.to] {
				return invalidPlan("Circular dependency: %s <-> %s", n.id, e.to.id)
			}
			if err := walk(e.to); err != nil {
				return err
			}
		}
		walking[n], walked[n] = false, true
		return nil
	}
	for i := range edges {
		if n := g.nodes[edges[i].Source()]; n != nil {
			if err := walk(n); err != nil {
				return err
			}
		}
	}
	return nil
}

func invalidPlan(format string, args ...any) *runner.Failure {
	return &runner.Failure{Reason: runner.Crash, Type: "ValidationError", Message: fmt.Sprintf(format, args...)}
}
