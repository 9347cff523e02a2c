package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
)

// plan is what a workflow of OpenFn's tools comes to.
type plan struct {
	Name           string          `json:"name,omitempty"`
	Triggers       []trigger       `json:"triggers,omitempty"`
	Jobs           []job           `json:"jobs"`
	Edges          []edge          `json:"edges,omitempty"`
	StartingNodeID string          `json:"starting_node_id,omitempty"`
	Globals        json.RawMessage `json:"globals,omitempty"`
}

// trigger is what starts a workflow.
type trigger struct {
	ID   string `json:"id"`
	Type string `json:"type,omitempty"`
}

// job is a step with code.
type job struct {
	ID           string          `json:"id"`
	Name         string          `json:"name,omitempty"`
	Adaptor      string          `json:"adaptor,omitempty"`
	Body         string          `json:"body"`
	CredentialID string          `json:"credential_id,omitempty"`
	Credential   json.RawMessage `json:"credential,omitempty"`
	State        json.RawMessage `json:"state,omitempty"`
}

// edge leads from a trigger or a job to a job.
type edge struct {
	ID              string `json:"id"`
	SourceTriggerID string `json:"source_trigger_id,omitempty"`
	SourceJobID     string `json:"source_job_id,omitempty"`
	TargetJobID     string `json:"target_job_id"`
	Condition       string `json:"condition,omitempty"`
	Enabled         *bool  `json:"enabled,omitempty"`
}

// find returns the id of the job that a person names by its id or its name.
func find(jobs []job, job string) (string, error) {
	var ids []string
	for _, j := range jobs {
		if j.ID == job || j.Name == job {
			return j.ID, nil
		}
		ids = append(ids, j.ID)
	}
	return "", fmt.Errorf("there is no step %q: the steps are %s", job, strings.Join(ids, ", "))
}

// needs returns the credentials that jobs name, each with a job that does.
func needs(jobs []job) map[string]string {
	ids := make(map[string]string)
	for _, j := range jobs {
		id := j.CredentialID
		if id == "" && json.Unmarshal(j.Credential, &id) != nil {
			continue
		}
		if id != "" {
			ids[id] = j.ID
		}
	}
	return ids
}

// adaptor returns the whole name of an adaptor.
func adaptor(name string) string {
	switch {
	case name == "":
		return "@openfn/language-common@latest"
	case strings.HasPrefix(name, "@"), strings.Contains(name, "/"):
		return name
	}
	return "@openfn/language-" + strings.TrimPrefix(name, "language-")
}

// identifier makes an id of a name, as OpenFn's tools do.
func identifier(name string) string {
	var words []string
	for word := range strings.FieldsFuncSeq(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_'
	}) {
		words = append(words, word)
	}
	return strings.Join(words, "-")
}
