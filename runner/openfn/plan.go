package openfn

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// The types below are a plan as @openfn/runtime takes it.

type runtimePlan struct {
	ID       string          `json:"id"`
	Workflow runtimeWorkflow `json:"workflow"`
	Options  runtimeOptions  `json:"options"`
}

type runtimeWorkflow struct {
	Name        string            `json:"name,omitempty"`
	Steps       []runtimeStep     `json:"steps"`
	Globals     string            `json:"globals,omitempty"`
	Credentials map[string]string `json:"credentials,omitempty"`
}

type runtimeOptions struct {
	Start string `json:"start,omitempty"`
}

type runtimeStep struct {
	ID            string                  `json:"id"`
	Name          string                  `json:"name,omitempty"`
	Expression    string                  `json:"expression,omitempty"`
	SourceMap     *compile.SourceMap      `json:"sourceMap,omitempty"`
	Linker        map[string]linkedModule `json:"linker,omitempty"`
	Configuration json.RawMessage         `json:"configuration,omitempty"`
	State         json.RawMessage         `json:"state,omitempty"`
	Next          edges                   `json:"next,omitempty"`
}

// linkedModule says where the runtime finds a module that a job imports.
type linkedModule struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

// edges are an object by target, in the order of the plan: it is the order in
// which the runtime follows them.
type edges []edge

type edge struct {
	to        string
	condition string // empty for always
}

// MarshalJSON implements [json.Marshaler].
func (es edges) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, e := range es {
		if i > 0 {
			out = append(out, ',')
		}
		to, err := json.Marshal(e.to)
		if err != nil {
			return nil, err
		}
		out = append(append(out, to...), ':')
		if e.condition == "" {
			out = append(out, "true"...)
			continue
		}
		condition, err := json.Marshal(map[string]string{"condition": e.condition})
		if err != nil {
			return nil, err
		}
		out = append(out, condition...)
	}
	return append(out, '}'), nil
}

// planFor compiles the jobs of a run, reached or not, into a plan for the runtime, which
// is to be used until its batch is closed. An error is a [*runner.Failure], or the cause of ctx.
func planFor(ctx context.Context, compiler *compile.Compiler, run *runner.Run, packages packagesByJob) (*runtimePlan, *compile.Batch, error) {
	sources := make([]compile.Job, len(run.Plan.Jobs))
	for i := range run.Plan.Jobs {
		sources[i] = sourceOf(&run.Plan.Jobs[i], packages)
	}
	batch, err := compiler.Start(ctx, sources, nil)
	if err != nil {
		return nil, nil, compile.Failure(err)
	}
	plan, err := compilePlan(ctx, batch, run, sources, packages)
	if err != nil {
		batch.Close()
		return nil, nil, err
	}
	return plan, batch, nil
}

func compilePlan(ctx context.Context, batch *compile.Batch, run *runner.Run, sources []compile.Job, packages packagesByJob) (*runtimePlan, error) {
	plan := &runtimePlan{ID: run.ID}
	plan.Workflow.Steps = []runtimeStep{} // none is for the runtime to refuse
	plan.Workflow.Name = run.Plan.Name
	_ = json.Unmarshal(run.Plan.Globals, &plan.Workflow.Globals) // what is no text is none
	plan.Options.Start = run.Plan.Start()
	for i := range run.Plan.Triggers {
		plan.Workflow.Steps = append(plan.Workflow.Steps, runtimeStep{ID: run.Plan.Triggers[i].ID})
	}
	for i := range run.Plan.Jobs {
		job := &run.Plan.Jobs[i]
		step := runtimeStep{ID: job.ID, Name: job.Name, State: job.State}
		if sources[i].Body != "" {
			var err error
			if step, err = compileStep(ctx, batch, step, sources[i], packages[job.ID]); err != nil {
				return nil, err
			}
		}
		step.Configuration = run.Credential(job.ID)
		plan.Workflow.Steps = append(plan.Workflow.Steps, step)
	}
	connect(plan.Workflow.Steps, run.Plan.Edges)
	if failure := run.Plan.CheckPaths(); failure != nil {
		return nil, failure
	}
	return plan, nil
}

// sourceOf returns the code of a job, empty for none, and what it may use.
func sourceOf(job *runner.Job, packages packagesByJob) compile.Job {
	source := compile.Job{Name: job.Label(), Body: job.Body}
	for _, p := range packages[job.ID] {
		source.Adaptors = append(source.Adaptors, compile.Adaptor{Name: p.Name, Exports: p.Exports})
	}
	return source
}

// compileStep completes a step with its code.
func compileStep(ctx context.Context, batch *compile.Batch, step runtimeStep, source compile.Job, packages []adaptors.Package) (runtimeStep, error) {
	step.Linker = make(map[string]linkedModule, len(packages))
	for _, p := range packages {
		step.Linker[p.Name] = linkedModule{Path: p.Dir, Version: p.Version}
	}
	module, err := batch.Compile(ctx, source)
	if err != nil {
		return step, compile.Failure(err)
	}
	sourceMap := module.SourceMap(source.Name + ".js")
	step.Expression, step.SourceMap = module.Code, &sourceMap
	return step, nil
}

// connect gives the steps their edges, without those that are disabled. What is
// wrong with them is for the runtime to say.
func connect(steps []runtimeStep, planned []runner.Edge) {
	byID := make(map[string]*runtimeStep, len(steps))
	for i := range steps {
		byID[steps[i].ID] = &steps[i]
	}
	for i := range planned {
		from := byID[planned[i].Source()]
		if from == nil || !planned[i].IsEnabled() {
			continue
		}
		condition := planned[i].Condition
		if text := strings.TrimSpace(condition); text == "" || text == "always" {
			condition = ""
		}
		from.Next = append(from.Next, edge{to: planned[i].TargetJobID, condition: condition})
	}
}
