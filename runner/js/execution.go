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
	times      map[*node]int   // how often a node was come to before
	ended      int             // how many steps had none after them
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

// leaf is what a node came to that no other followed.
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
		if failure, ok := errors.AsType[*runner.Failure](err); ok && failure.Type != "CompileError" {
			x.logInvalid(failure)
		}
		return runner.Result{}, err
	}
	x.log("success", "Workflow compilation complete in "+formatDuration(time.Since(begin)))
	x.log("info", "Executing "+x.run.ID)

	x.names, x.times = make(map[string]bool), make(map[*node]int)
	input := x.run.Input
	if bytes.HasPrefix(bytes.TrimLeft(input, " \t\r\n"), []byte{'"'}) {
		input = nil // OpenFn's runtime takes a text for the id of a state, and does not find it
	}
	x.queue = []visit{{node: graph.start, state: input}}
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
	nth := x.times[v.node]
	x.times[v.node]++
	if v.node.module == nil {
		if v.state == nil {
			v.state = json.RawMessage("{}")
		}
		next, state, err := x.follow(ctx, v.node, v.from, v.state, false)
		if err != nil {
			return err
		}
		return x.goOn(v.node, nth, next, v.from, state)
	}

	if v.from != nil && isNull(v.state) { // what OpenFn's runtime comes to when it makes the state of the step
		return &runner.Failure{Reason: runner.Crash, Type: "TypeError", Message: "Cannot read properties of null (reading 'references')"}
	}
	label := v.node.job.Label()
	x.log("info", "Starting step "+label)
	report := x.run.StartStep(v.node.id, v.from)
	s := &step{execution: x, node: v.node, report: report, input: v.state, began: time.Now()}
	outcome, err := s.execute(ctx)
	if err != nil {
		return err // the runner completes the step
	}
	took := time.Since(s.began)
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
		x.ended++
	} else if (state == nil || isNull(state)) && outcome.verdict.reason == runner.Success {
		x.log("warn", "WARNING: step "+v.node.id+" did not return a state object. This may cause downstream jobs to fail.")
	}
	return x.goOn(v.node, nth, next, report, state)
}

// isNull reports whether a state is JSON's null, as that of a date that is none.
func isNull(state json.RawMessage) bool { return string(state) == "null" }

// goOn queues what follows a node, or keeps what it came to if nothing does.
func (x *execution) goOn(n *node, nth int, next []*node, from *runner.Step, state json.RawMessage) error {
	if len(next) > 0 {
		return x.enqueue(next, from, state)
	}
	if state == nil {
		return nil
	}
	x.leafs = append(x.leafs, leaf{name: x.leafName(n.id, nth), state: state})
	return x.hold(state)
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

// leafName names a leaf in the final state. A node that was come to before has a number, and so has one whose name
// another leaf has.
func (x *execution) leafName(id string, nth int) string {
	name := id
	for ; nth > 0 || x.names[name]; nth++ {
		if name = id + "-" + strconv.Itoa(max(nth, 1)); !x.names[name] {
			break
		}
	}
	x.names[name] = true
	return name
}

// finalState is the state of the only leaf that left one, else an object of those of all leafs. What is empty at its
// top is left out, as OpenFn's worker does, unless it is what the only step came to that had none after it.
func (x *execution) finalState() json.RawMessage {
	switch {
	case len(x.leafs) == 0:
		return nil
	case len(x.leafs) == 1 && x.ended == 1:
		return x.leafs[0].state
	case len(x.leafs) == 1:
		return withoutEmpty(x.leafs[0].state)
	}
	var out object
	for _, l := range x.leafs {
		out.add(l.name, l.state)
	}
	return out.text()
}

// withoutEmpty leaves out what is empty at the top of a state, and keeps the order of the rest.
func withoutEmpty(state json.RawMessage) json.RawMessage {
	in := json.NewDecoder(bytes.NewReader(state))
	if begin, err := in.Token(); err != nil || begin != json.Delim('{') {
		return state
	}
	var out object
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return state
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return state
		}
		out.add(name, value)
	}
	return out.text()
}

// object is JSON whose members are written one after the other, without those that are empty.
type object struct{ members bytes.Buffer }

func (o *object) add(name any, value json.RawMessage) {
	if isEmpty(value) {
		return
	}
	quoted, _ := json.Marshal(name) // a string cannot fail to marshal
	o.members.WriteByte("{,"[min(o.members.Len(), 1)])
	o.members.Write(quoted)
	o.members.WriteByte(':')
	o.members.Write(value)
}

func (o *object) text() json.RawMessage {
	if o.members.Len() == 0 {
		return json.RawMessage("{}")
	}
	o.members.WriteByte('}')
	return o.members.Bytes()
}

// isEmpty reports whether a value is an object or a list without members, or an object of nothing but data without any.
func isEmpty(value json.RawMessage) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil || fields == nil {
		return string(value) == "[]"
	}
	data, only := fields["data"]
	return len(fields) == 0 || len(fields) == 1 && only && hasNoMembers(data)
}

// hasNoMembers reports whether Object.keys of a value is empty; of null there are none to be asked for.
func hasNoMembers(value json.RawMessage) bool {
	switch value[0] {
	case '{', '[', '"':
		return len(value) == 2
	}
	return string(value) != "null"
}

// logInvalid says what is wrong with a plan, as OpenFn's runtime does.
func (x *execution) logInvalid(failure *runner.Failure) {
	x.log("error", "Error validating execution plan")
	what, _ := json.Marshal(map[string]string{"name": failure.Type, "message": failure.Message}) // texts cannot fail to marshal
	x.run.Log(runner.Line{Level: "error", Source: "R/T", Message: []json.RawMessage{what}})
	x.log("error", "Aborting")
}

func (x *execution) log(level, text string) { x.run.Log(runner.TextLine(level, "R/T", text)) }
