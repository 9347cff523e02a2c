package workflow

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/phxworker/phxworker/cmd/phxworker/options"
)

// kind is a thing of a workflow's file.
type kind struct {
	name   string   // what people know it by
	fields []string // what it may have, whether it is read here or matters to other tools alone
	texts  []string // those of them that are texts
	meant  map[string]string
}

// OpenFn's tools write an "openfn" into anything that they have put on a server.
var (
	workflowKind = kind{
		name:   "the workflow",
		fields: []string{"id", "name", "description", "schema_version", "start", "steps", "globals", "options", "credentials", "openfn", "history", "workflow"},
		texts:  []string{"name", "start"},
		meant:  map[string]string{"jobs": "steps", "starting_node_id": "start"},
	}
	stepKind = kind{
		name: "the step",
		fields: []string{
			"id", "name", "adaptor", "adaptors", "expression", "configuration", "state", "next", "previous", "linker", "openfn",
			"type", "enabled", "cron_expression", "webhook_reply", "webhook_response_config", "cron_cursor_job_id",
		},
		texts: []string{"id", "name", "adaptor", "type"},
		meant: map[string]string{
			"credential": "configuration", "credentials": "configuration", "credential_id": "configuration", "body": "expression", "code": "expression",
			"job": "expression", "adapter": "adaptor", "edges": "next", "input": "state",
		},
	}
	wayKind = kind{
		name:   "the edge to",
		fields: []string{"condition", "label", "name", "disabled", "openfn"},
		texts:  []string{"condition"},
		meant:  map[string]string{"condition_type": "condition", "condition_expression": "condition", "enabled": "disabled"},
	}
	jobKind = kind{
		name:   "the job",
		fields: []string{"id", "name", "adaptor", "body", "credential", "openfn"},
		texts:  []string{"name", "adaptor", "credential"},
		meant:  map[string]string{"expression": "body", "code": "body", "configuration": "credential", "adapter": "adaptor"},
	}
	edgeKind = kind{
		name:   "the edge",
		fields: []string{"id", "source_trigger", "source_job", "target_job", "condition_type", "condition_expression", "condition_label", "enabled", "openfn"},
		texts:  []string{"source_trigger", "source_job", "target_job", "condition_type", "condition_expression"},
		meant:  map[string]string{"condition": "condition_type", "source": "source_job", "target": "target_job", "disabled": "enabled"},
	}
)

// check warns of fields that nothing reads, and refuses what must be a text and is none: it would be passed over, and the
// workflow be another one than the file says.
func (s spec) check(node *yaml.Node, k kind, id string) error {
	of := k.name
	if id != "" {
		of = fmt.Sprintf("%s %q", k.name, id)
	}
	if node.Kind != yaml.MappingNode {
		return s.fail(node, "%s must be an object, such as { name: Load visits }", of)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolve(node.Content[i+1])
		switch instead := cmp.Or(k.meant[key.Value], options.Closest(key.Value, k.fields)); {
		case slices.Contains(k.texts, key.Value) && value.Kind != yaml.ScalarNode:
			return s.fail(key, "%s has %s that is no text", of, key.Value)
		case slices.Contains(k.fields, key.Value) || key.Value == "<<":
		case instead != "":
			s.warnf(key, "%s has a field %q, which nothing reads: did you mean %q?", of, key.Value, instead)
		default:
			s.warnf(key, "%s has a field %q, which nothing reads", of, key.Value)
		}
	}
	return nil
}

func (s spec) warnf(node *yaml.Node, format string, args ...any) {
	s.warnings = append(s.warnings, s.fail(node, format, args...).Error())
}
