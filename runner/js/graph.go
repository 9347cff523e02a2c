package js

import (
	"context"
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
	case "on_job_success", "on_upstream_success":
		return onSuccess
	case "on_job_failure", "on_upstream_fail":
		return onFailure
	}
	return expression
}

// newGraph compiles all jobs, reached or not, and checks that the plan can be
// followed. An error is a [*runner.Failure].
func newGraph(ctx context.Context, plan *runner.Plan, sources []compile.Job, batch *compile.Batch) (*graph, error) {
	g := &graph{nodes: make(map[string]*node, len(plan.Jobs)+len(plan.Triggers))}
	for i := range plan.Triggers {
		id := plan.Triggers[i].ID
		g.nodes[id] = &node{id: id}
	}
	for i := range plan.Jobs {
		n := &node{id: plan.Jobs[i].ID, job: &plan.Jobs[i]}
		g.nodes[n.id] = n
		if n.job.Body == "" {
			continue
		}
		var err error
		if n.module, err = batch.Compile(ctx, sources[i]); err != nil {
			return nil, compile.Failure(err)
		}
	}
	if err := g.findStart(plan); err != nil {
		return nil, err
	}
	if err := g.connect(plan.Edges); err != nil {
		return nil, err
	}
	if err := g.compileConditions(ctx, plan, batch); err != nil {
		return nil, err
	}
	if failure := plan.CheckPaths(); failure != nil {
		return nil, failure
	}
	return g, nil
}

// sources returns the code of the jobs of a plan, and what each may use.
func (x *execution) sources() []compile.Job {
	jobs := x.run.Plan.Jobs
	sources := make([]compile.Job, len(jobs))
	for i := range jobs {
		job := &jobs[i]
		sources[i] = compile.Job{Name: job.Label(), Body: job.Body, WrapSpreads: true}
		if one := x.reals[job.Adaptor]; one != nil {
			sources[i].Adaptors = []compile.Adaptor{{Name: one.Name, Exports: one.Exports}}
		} else if name, _ := runner.SplitAdaptor(job.Adaptor); name == commonAdaptor {
			sources[i].Adaptors = []compile.Adaptor{{Name: commonAdaptor, Exports: x.prelude.exports}}
		}
	}
	return sources
}

// conditionsOf returns what stands on the edges of a plan.
func conditionsOf(plan *runner.Plan) []string {
	conditions := make([]string, len(plan.Edges))
	for i := range plan.Edges {
		conditions[i] = plan.Edges[i].Condition
	}
	return conditions
}

// findStart finds the node to start with.
func (g *graph) findStart(plan *runner.Plan) error {
	if plan.StartingNodeID == "" && len(plan.Triggers)+len(plan.Jobs) == 0 {
		return &runner.Failure{Reason: runner.Crash, Type: "TypeError", Message: "The plan has no job to start with"}
	}
	if g.start = g.nodes[plan.Start()]; g.start == nil {
		return invalidPlan("Could not find start job: %s", plan.Start())
	}
	return nil
}

func (g *graph) connect(edges []runner.Edge) error {
	known := make(map[[2]*node]*edge, len(edges))
	for i := range edges {
		from := g.nodes[edges[i].Source()]
		if from == nil || !edges[i].IsEnabled() {
			continue
		}
		to := g.nodes[edges[i].TargetJobID]
		if to == nil {
			return invalidPlan("Cannot find job: %s", edges[i].TargetJobID)
		}
		e := known[[2]*node{from, to}]
		if e == nil {
			e = &edge{from: from, to: to}
			known[[2]*node{from, to}] = e
			from.edges = append(from.edges, e)
		}
		e.kind = conditionOf(strings.TrimSpace(edges[i].Condition)) // of several edges the last one counts
		e.function = edges[i].Condition                             // to be compiled
	}
	return g.checkCycles(edges)
}

// compileConditions tells of all conditions that cannot be compiled, as OpenFn's runtime does.
func (g *graph) compileConditions(ctx context.Context, plan *runner.Plan, batch *compile.Batch) error {
	ids := make([]string, 0, len(plan.Triggers)+len(plan.Jobs))
	for i := range plan.Triggers {
		ids = append(ids, plan.Triggers[i].ID)
	}
	for i := range plan.Jobs {
		ids = append(ids, plan.Jobs[i].ID)
	}
	var wrong []string
	done := make(map[*edge]bool)
	for _, id := range ids {
		for _, e := range g.nodes[id].edges {
			if e.kind != expression || done[e] {
				continue
			}
			done[e] = true
			text := e.function
			var err error
			if e.function, err = batch.Condition(ctx, text); err == nil {
				continue
			}
			if ctx.Err() != nil {
				return err
			}
			wrong = append(wrong, fmt.Sprintf("Failed to compile edge condition %s->%s (%s)", e.from.id, e.to.id, conditionMessage(err, text)))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &runner.Failure{Reason: runner.Crash, Type: "Error", Message: strings.Join(wrong, "\n\n")}
}

// checkCycles walks from every node; a node that is met again while it is being
// walked closes a cycle. It does not recurse: a plan may be a line of a million nodes.
func (g *graph) checkCycles(edges []runner.Edge) error {
	walking, walked := make(map[*node]bool), make(map[*node]bool)
	type turn struct {
		node *node
		next int // the edge to follow
	}
	var stack []turn
	for i := range edges {
		if n := g.nodes[edges[i].Source()]; n != nil && !walked[n] {
			stack, walking[n] = append(stack, turn{node: n}), true
		}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			n := top.node
			if top.next == len(n.edges) {
				walking[n], walked[n] = false, true
				stack = stack[:len(stack)-1]
				continue
			}
			to := n.edges[top.next].to
			top.next++
			if walking[to] {
				return invalidPlan("Circular dependency: %s <-> %s", n.id, to.id)
			}
			if !walked[to] {
				stack, walking[to] = append(stack, turn{node: to}), true
			}
		}
	}
	return nil
}

func invalidPlan(format string, args ...any) *runner.Failure {
	return &runner.Failure{Reason: runner.Crash, Type: "ValidationError", Message: fmt.Sprintf(format, args...)}
}
