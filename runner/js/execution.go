package js

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"time"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/egress"
)

// execution is one run under way. One goroutine executes it.
type execution struct {
	engine  *Engine
	stock   *stock
	prelude *prelude // of the stock
	run     *runner.Run
	reals   reals           // nil where all that the plan needs is built in
	traffic *egress.Traffic // nil before the first exchange

	meta       json.RawMessage // the global of all jobs
	conditions *conditions     // nil until the first is met
	queue      []visit
	leafs      []leaf
	names      map[string]bool // of the leafs
	copies     map[string]int  // how many leafs a job came to
	visits     int             // that were ever queued
	held       int             // the states in the queue and in the leafs, in bytes
	late       *lateError      // of a step that has ended
}

// visit is a node whose turn will come, and what it goes on from.
type visit struct {
	node *node
	from *runner.Step
	// state is nil for none; the last of several that go on from one frees it.
	state json.RawMessage
	last  bool
}

// leaf is what a step without a following one came to.
type leaf struct {
	name  string
	state json.RawMessage
}

func (x *execution) execute(ctx context.Context) (runner.Result, error) {
	defer func() {
		if x.conditions != nil {
			x.conditions.close(x.stock)
		}
		if x.traffic != nil {
			x.traffic.Close()
		}
	}()
	growStack()
	x.log("info", "Compiling all workflow steps...")
	begin := time.Now()
	x.meta = x.run.Meta(begin)
	sources := x.sources()
	batch, err := x.engine.cfg.Compiler.Start(ctx, sources, conditionsOf(x.run.Plan))
	if err != nil {
		return runner.Result{}, compile.Failure(err)
	}
	defer batch.Close()
	graph, err := newGraph(ctx, x.run.Plan, sources, batch)
	if err != nil {
		var failure *runner.Failure
		if errors.As(err, &failure) && failure.Type != "CompileError" {
			x.log("error", "Error validating execution plan")
		}
		return runner.Result{}, err
	}
	x.log("success", "Workflow compilation complete in "+formatDuration(time.Since(begin)))
	x.log("info", "Executing "+x.run.ID)

	x.names, x.copies = make(map[string]bool), make(map[string]int)
	x.queue = []visit{{node: graph.start, state: x.run.Input}}
	for len(x.queue) > 0 {
		next := x.queue[0]
		x.queue[0] = visit{} // its state is not to be kept
		x.queue = x.queue[1:]
		if next.last {
			x.held -= len(next.state)
		}
		if ctx.Err() != nil {
			return runner.Result{}, context.Cause(ctx)
		}
		if err := x.visit(ctx, next); err != nil {
			return runner.Result{}, err
		}
	}
	return runner.Result{State: x.finalState()}, nil
}

// growStack gives the goroutine at once the stack that QuickJS will need: it has large frames, and to double the stack for
// them again and again takes a twentieth of the time of a short run.
//
//go:noinline
func growStack() {
	var room [48 << 10]byte
	runtime.KeepAlive(&room)
}

// visit executes a node and queues what follows it.
func (x *execution) visit(ctx context.Context, v visit) error {
	if v.node.module == nil {
		next, state, err := x.follow(ctx, v.node, v.from, v.state, false)
		if err != nil {
			return err
		}
		return x.enqueue(next, v.from, state)
	}

	label := v.node.job.Label()
	x.log("info", "Starting step "+label)
	report := x.run.StartStep(v.node.id, v.from)
	begin := time.Now()
	s := &step{execution: x, node: v.node, report: report, input: v.state}
	outcome, err := s.execute(ctx)
	if err != nil {
		return err // the runner completes the step
	}
	took := time.Since(begin)
	logOutcome(report, v.node.job, outcome, took)

	result := runner.StepResult{
		Reason: outcome.reason, ErrorType: outcome.stepType, ErrorMessage: outcome.message,
		State: outcome.state, WebhookResponse: outcome.webhookResponse,
		Duration: took, ThreadID: x.engine.threadID(), Leaf: true,
	}
	if outcome.failure != nil {
		report.Complete(result)
		return outcome.failure
	}
	next, state, err := x.follow(ctx, v.node, report, outcome.state, outcome.failed)
	if err != nil {
		return err
	}
	if outcome.verdict.reason == runner.Success {
		result.Memory = outcome.memory
	}
	result.State, result.Leaf = state, len(next) == 0
	report.Complete(result)
	if result.Leaf {
		x.leafs = append(x.leafs, leaf{name: x.leafName(v.node.id), state: state})
		return x.hold(state)
	}
	return x.enqueue(next, report, state)
}

func (x *execution) enqueue(nodes []*node, from *runner.Step, state json.RawMessage) error {
	if x.visits += len(nodes); x.visits > x.engine.maxVisits {
		return x.run.Plan.StepLimit(x.engine.maxVisits, "nodes")
	}
	for i, n := range nodes {
		x.queue = append(x.queue, visit{node: n, from: from, state: state, last: i == len(nodes)-1})
	}
	if len(nodes) == 0 {
		return nil
	}
	return x.hold(state)
}

// heldShare is the part of the memory limit that the states which are kept may take together.
const heldShare = 0.25

// hold counts a state that is kept while others are made. One alone may take what its step may.
func (x *execution) hold(state json.RawMessage) error {
	others := x.held
	if x.held += len(state); others > 0 && float64(x.held) > heldShare*x.run.Limits.MemoryMB*(1<<20) {
		return &runner.Failure{Reason: runner.Kill, Type: "OOMError", Message: "Run exceeded maximum memory usage"}
	}
	return nil
}

// leafName names a leaf in the final state. A job that was executed more than
// once gets a number from the second time on.
func (x *execution) leafName(job string) string {
	name := job
	for x.names[name] {
		x.copies[job]++
		name = job + "-" + strconv.Itoa(x.copies[job])
	}
	x.names[name] = true
	return name
}

// finalState is the state of the only leaf that left one, else an object of
// those of all leafs.
func (x *execution) finalState() json.RawMessage {
	var states []leaf
	for _, l := range x.leafs {
		if l.state != nil {
			states = append(states, l)
		}
	}
	switch {
	case len(x.leafs) == 0:
		return json.RawMessage("{}")
	case len(states) == 0:
		return nil
	case len(states) == 1 && len(x.leafs) == 1:
		return states[0].state
	case len(states) == 1:
		return withoutEmpty(states[0].state)
	}
	var out bytes.Buffer
	for i, l := range states {
		name, _ := json.Marshal(l.name) // a string cannot fail to marshal
		out.WriteByte("{,"[min(i, 1)])
		out.Write(name)
		out.WriteByte(':')
		out.Write(l.state)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// withoutEmpty leaves out the empty objects and lists at the top of a state, as OpenFn's
// engine does where a step that returned nothing stands beside one that did.
func withoutEmpty(state json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(state, &fields) != nil {
		return state
	}
	for name, value := range fields {
		if string(value) == "{}" || string(value) == "[]" {
			delete(fields, name)
		}
	}
	smaller, err := json.Marshal(fields)
	if err != nil {
		return state
	}
	return smaller
}

func (x *execution) log(level, text string) { x.run.Log(runner.TextLine(level, "R/T", text)) }
