package runner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/phxworker/phxworker/runner/delivery"
)

// Plan is what the server wants executed: a workflow as a graph of jobs. It is
// the reply to fetch:plan. Everything but the jobs can be absent.
type Plan struct {
	ID             string    `json:"id"`
	ProjectID      string    `json:"project_id"`
	Name           string    `json:"name"`
	Triggers       []Trigger `json:"triggers"`
	Jobs           []Job     `json:"jobs"`
	Edges          []Edge    `json:"edges"`
	StartingNodeID string    `json:"starting_node_id"`
	// DataclipID names the run's input; it is empty when there is none.
	DataclipID string      `json:"dataclip_id"`
	Options    PlanOptions `json:"options"`
	// Globals is JavaScript whose exports every job sees.
	Globals json.RawMessage `json:"globals"`
	// Meta says where the run comes from; see [Plan.Owner] and [Run.Meta].
	Meta json.RawMessage `json:"meta"`
	// Raw is the plan as the server sent it, with the fields this type does not know.
	Raw json.RawMessage `json:"-"`
}

// Owner names whose run it is, as far as the plan tells: its project, or else its
// workflow. It is empty where the plan names neither. What one run leaves behind may
// only be seen by runs of the same owner, and by none where there is none.
func (p *Plan) Owner() string {
	switch m := p.meta(); {
	case m.ProjectID != "":
		return "project " + m.ProjectID
	case m.WorkflowID != "":
		return "workflow " + m.WorkflowID
	}
	return ""
}

// meta is what a plan says of where its run comes from.
type meta struct {
	WorkOrderID string `json:"work_order_id"`
	WorkflowID  string `json:"workflow_id"`
	ProjectID   string `json:"project_id"`
}

// meta returns it, with the project that the plan names beside it. What cannot be read names nothing.
func (p *Plan) meta() meta {
	var m meta
	_ = json.Unmarshal(p.Meta, &m)
	m.ProjectID = cmp.Or(p.ProjectID, m.ProjectID)
	return m
}

// Meta returns what the code of every job of the run sees as its global meta, as JSON: an object of texts, runId and
// startTime (RFC 3339, in UTC), and workOrderId, workflowId and projectId as far as the plan tells them. It is to be
// the same for all steps, so an engine asks for it once, with the time at which it began.
func (r *Run) Meta(began time.Time) json.RawMessage {
	m := r.Plan.meta()
	text, _ := json.Marshal(struct { // texts always encode
		RunID       string `json:"runId"`
		StartTime   string `json:"startTime"`
		WorkOrderID string `json:"workOrderId,omitempty"`
		WorkflowID  string `json:"workflowId,omitempty"`
		ProjectID   string `json:"projectId,omitempty"`
	}{r.ID, began.UTC().Format("2006-01-02T15:04:05.000Z"), m.WorkOrderID, m.WorkflowID, m.ProjectID})
	return text
}

// Trigger is a node that starts a workflow and runs no code.
type Trigger struct {
	ID string `json:"id"`
}

// Job is a node with code.
type Job struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Adaptor string `json:"adaptor"`
	Body    string `json:"body"`
	// CredentialID and Credential are two spellings of the same thing; see [Job.CredentialRef].
	CredentialID string          `json:"credential_id"`
	Credential   json.RawMessage `json:"credential"`
	// State is the job's own default state, which its input is laid over.
	State json.RawMessage `json:"state"`
}

// CredentialRef returns the id of the job's credential, or the credential
// itself where the plan carries it. Both are empty when it has none.
func (j *Job) CredentialRef() (id string, inline json.RawMessage) {
	if j.CredentialID != "" {
		return j.CredentialID, nil
	}
	if len(j.Credential) == 0 || string(j.Credential) == "null" {
		return "", nil
	}
	if json.Unmarshal(j.Credential, &id) == nil {
		return id, nil
	}
	return "", j.Credential
}

// SplitAdaptor splits "@openfn/language-common@3.3.4" into name and version, which is empty if there is none.
func SplitAdaptor(adaptor string) (name, version string) {
	if i := strings.LastIndexByte(adaptor, '@'); i > 0 {
		return adaptor[:i], adaptor[i+1:]
	}
	return adaptor, ""
}

// Label returns what people know the job by: its name, or else its id.
func (j *Job) Label() string { return cmp.Or(j.Name, j.ID) }

// Edge leads from a trigger or a job to a job.
type Edge struct {
	ID              string `json:"id"`
	SourceTriggerID string `json:"source_trigger_id"`
	SourceJobID     string `json:"source_job_id"`
	TargetJobID     string `json:"target_job_id"`
	// Condition is "always" (also when absent), "on_job_success" or
	// "on_upstream_success", "on_job_failure" or "on_upstream_fail", or a JavaScript expression over state.
	Condition string `json:"condition"`
	// Enabled is true when absent.
	Enabled *bool `json:"enabled"`
}

// Source returns the id of the node that the edge leaves.
func (e *Edge) Source() string { return cmp.Or(e.SourceJobID, e.SourceTriggerID) }

// IsEnabled reports whether the edge may be followed at all.
func (e *Edge) IsEnabled() bool { return e.Enabled == nil || *e.Enabled }

// PlanOptions are the plan's own limits. A nil one leaves the worker's.
type PlanOptions struct {
	OutputDataclips   *bool    `json:"output_dataclips"`
	RunTimeoutMS      *float64 `json:"run_timeout_ms"`
	RunMemoryLimitMB  *float64 `json:"run_memory_limit_mb"`
	StateLimitMB      *float64 `json:"state_limit_mb"`
	PayloadLimitMB    *float64 `json:"payload_limit_mb"`
	LogPayloadLimitMB *float64 `json:"log_payload_limit_mb"`
	JobLogLevel       string   `json:"job_log_level"`
	// DeadlineMS is when the run is of no use any more, in milliseconds since 1970. Lightning has no such option.
	DeadlineMS *float64 `json:"deadline_ms"`
}

// Deadline returns when the run is of no use any more, zero if it always is.
func (o *PlanOptions) Deadline() time.Time {
	if o.DeadlineMS == nil || *o.DeadlineMS <= 0 || *o.DeadlineMS > maxDeadline {
		return time.Time{}
	}
	return time.UnixMilli(int64(*o.DeadlineMS))
}

// maxDeadline keeps a plan's number within those that are times: the year 5138.
const maxDeadline = 1e14

// ParsePlan reads a plan as the server or a plan file has it. The error names
// the field that is wrong. The plan keeps the data, which must not be changed.
//
// What only an engine can judge, such as an edge to a job that does not exist, is left to it.
func ParsePlan(data []byte) (*Plan, error) {
	plan := &Plan{}
	if err := json.Unmarshal(data, plan); err != nil {
		return nil, fmt.Errorf("the plan cannot be read: %w", describeJSON(err))
	}
	if plan.ID == "" {
		return nil, errors.New(`the plan has no "id"`)
	}
	seen := make(map[string]bool, len(plan.Jobs))
	for i := range plan.Jobs {
		id := plan.Jobs[i].ID
		switch {
		case id == "":
			return nil, fmt.Errorf(`jobs[%d] of the plan%s has no "id"`, i, aside("%.100q", plan.Jobs[i].Name))
		case seen[id]:
			return nil, fmt.Errorf("two jobs of the plan have the id %.100q", id)
		}
		seen[id] = true
	}
	for i := range plan.Edges {
		if plan.Edges[i].TargetJobID == "" {
			return nil, fmt.Errorf(`edges[%d] of the plan%s has no "target_job_id"`, i, aside("from %s", plan.labels()[plan.Edges[i].Source()]))
		}
	}
	plan.Raw = data
	return plan, nil
}

// aside puts a name, if there is any, between commas.
func aside(format, name string) string {
	if name == "" {
		return ""
	}
	return ", " + fmt.Sprintf(format, name) + ","
}

// describeJSON turns an error of encoding/json into one for people who do not know the Go types it names.
func describeJSON(err error) error {
	if wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s must not be of type %.100s", cmp.Or(wrongType.Field, "the whole"), wrongType.Value)
	}
	return err
}

func milliseconds(ms float64) time.Duration {
	return time.Duration(min(ms, maxMilliseconds) * float64(time.Millisecond))
}

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
		code[p.Jobs[i].ID] = p.Jobs[i].Body != ""
	}
	ways := p.summed(func(from string) bool { return !code[from] }, func(_ string, onward float64) float64 { return max(onward, 1) })
	for i := range p.Edges {
		id := p.Edges[i].Source()
		if n := ways(id); n > MaxVisits {
			return &Failure{
				Reason: Crash, Type: "ValidationError",
				Message: fmt.Sprintf("%.4g ways lead on from %s through jobs without code, over the limit of %d", n, delivery.Cut(id, 256, ""), MaxVisits),
			}
		}
	}
	steps := p.summed(func(string) bool { return true }, func(id string, onward float64) float64 {
		if code[id] {
			onward++
		}
		return onward
	})
	if n := steps(p.Start()); n > MaxSteps {
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

// summed returns what a node is worth, given what those are worth together that its edges lead to. It follows the edges
// of some nodes, as far as they are taken where all goes well, whatever is in the state. It does not recurse: a plan may
// be a line of a million nodes.
func (p *Plan) summed(followed func(from string) bool, worth func(id string, onward float64) float64) func(id string) float64 {
	next := make(map[string][]string) // by the node that they leave
	for i := range p.Edges {
		e := &p.Edges[i]
		switch strings.TrimSpace(e.Condition) {
		case "", "always", "on_job_success", "on_upstream_success":
			if from := e.Source(); e.IsEnabled() && followed(from) {
				next[from] = append(next[from], e.TargetJobID)
			}
		}
	}
	sums, taken := make(map[string]float64), make(map[string]int) // by node; how many of its edges were taken
	return func(id string) float64 {
		var stack []string
		visit := func(id string) {
			if _, known := sums[id]; !known {
				sums[id] = worth(id, 0) // for an edge that leads back to it
				stack = append(stack, id)
			}
		}
		for visit(id); len(stack) > 0; {
			top := stack[len(stack)-1]
			if n := taken[top]; n < len(next[top]) {
				taken[top]++
				visit(next[top][n])
				continue
			}
			onward := 0.0
			for _, to := range next[top] {
				onward += sums[to]
			}
			sums[top] = worth(top, onward)
			stack = stack[:len(stack)-1]
		}
		return sums[id]
	}
}
