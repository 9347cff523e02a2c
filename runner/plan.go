package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
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
	// Raw is the plan as the server sent it, with the fields this type does
	// not know.
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
	// CredentialID and Credential are two spellings of the same thing; see
	// [Job.CredentialRef].
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

// SplitAdaptor splits "@openfn/language-common@3.3.4" into name and version, which
// is empty if there is none.
func SplitAdaptor(adaptor string) (name, version string) {
	if i := strings.LastIndexByte(adaptor, '@'); i > 0 {
		return adaptor[:i], adaptor[i+1:]
	}
	return adaptor, ""
}

// Label returns what people know the job by: its name, or else its id.
func (j *Job) Label() string {
	if j.Name != "" {
		return j.Name
	}
	return j.ID
}

// Edge leads from a trigger or a job to a job.
type Edge struct {
	ID              string `json:"id"`
	SourceTriggerID string `json:"source_trigger_id"`
	SourceJobID     string `json:"source_job_id"`
	TargetJobID     string `json:"target_job_id"`
	// Condition is "always" (also when absent), "on_job_success",
	// "on_job_failure", or a JavaScript expression over state.
	Condition string `json:"condition"`
	// Enabled is true when absent.
	Enabled *bool `json:"enabled"`
}

// Source returns the id of the node that the edge leaves.
func (e *Edge) Source() string {
	if e.SourceJobID != "" {
		return e.SourceJobID
	}
	return e.SourceTriggerID
}

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
	Sanitize          string   `json:"sanitize"`
	// DeadlineMS is when the run is of no use any more, in milliseconds since 1970.
	// Lightning has no such option.
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
// What only an engine can judge, such as an edge to a job that does not exist,
// is left to it.
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

// describeJSON turns an error of encoding/json into one for people who do not
// know the Go types it names.
func describeJSON(err error) error {
	if wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		where := wrongType.Field
		if where == "" {
			where = "the whole"
		}
		return fmt.Errorf("%s must not be of type %.100s", where, wrongType.Value)
	}
	return err
}

func milliseconds(ms float64) time.Duration {
	return time.Duration(min(ms, maxMilliseconds) * float64(time.Millisecond))
}
