package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
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

// startOf returns the id of the node that a run of the plan starts with.
func startOf(fields map[string]json.RawMessage) string {
	start := member(fields, "starting_node_id")
	for _, list := range []string{"triggers", "jobs"} {
		var nodes []map[string]json.RawMessage
		if json.Unmarshal(fields[list], &nodes) == nil && len(nodes) > 0 && start == "" {
			start = member(nodes[0], "id")
		}
	}
	return start
}

// reached returns the nodes that a run may come to: those that edges lead to which are not switched off.
func reached(start string, edges []map[string]json.RawMessage) map[string]bool {
	all, waiting := map[string]bool{start: true}, []string{start}
	for len(waiting) > 0 {
		from := waiting[0]
		waiting = waiting[1:]
		for _, e := range edges {
			leaves := member(e, "source_job_id") == from || member(e, "source_trigger_id") == from
			if to := member(e, "target_job_id"); leaves && !all[to] && string(e["enabled"]) != "false" {
				all[to] = true
				waiting = append(waiting, to)
			}
		}
	}
	return all
}

// member returns the text that a field has, empty if it has none.
func member(fields map[string]json.RawMessage, name string) (text string) {
	_ = json.Unmarshal(fields[name], &text) // of another type, it is none
	return text
}

// needs returns the credentials that jobs name, each with a job that does: of the jobs that are reached, and those
// that others alone name.
func needs(jobs []job, reached map[string]bool) (ids, spare map[string]string) {
	ids, spare = make(map[string]string), make(map[string]string)
	for _, j := range jobs {
		id := j.CredentialID
		if id == "" && json.Unmarshal(j.Credential, &id) != nil {
			continue
		}
		switch {
		case id == "":
		case reached[j.ID]:
			ids[id] = j.ID
		default:
			spare[id] = j.ID
		}
	}
	maps.DeleteFunc(spare, func(id, _ string) bool { return ids[id] != "" })
	return ids, spare
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
