package runner

import (
	"cmp"
	"encoding/json"
	"time"
)

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
