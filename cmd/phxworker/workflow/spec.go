package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// spec is a file of OpenFn's tools.
type spec struct {
	*reader

	file string
}

func (s spec) fail(node *yaml.Node, format string, args ...any) *Error {
	return &Error{fmt.Sprintf("%s:%d", s.file, node.Line), fmt.Sprintf(format, args...)}
}

// project returns the plan of the workflow that the options name of a list, or of a mapping as older tools
// have it.
func (s spec) project(workflows, credentials *yaml.Node) ([]byte, error) {
	var names []string
	for _, p := range pairs(workflows) {
		name := text(field(p.value, "name"))
		id := text(field(p.value, "id"))
		if id == "" {
			id = p.key
		}
		if id == "" {
			id = identifier(name)
		}
		one := s.options.Workflow == "" && len(workflows.Content) == p.width
		if !one && s.options.Workflow != id && s.options.Workflow != name {
			names = append(names, id)
			continue
		}
		s.chosen = true
		if field(p.value, "steps") != nil {
			return s.workflow(p.value)
		}
		return s.older(p.value, credentials)
	}
	return nil, choose(s.file, s.options.Workflow, names)
}

// workflow returns the plan of one that has steps.
func (s spec) workflow(root *yaml.Node) ([]byte, error) {
	w := plan{Name: text(field(root, "name")), StartingNodeID: text(field(root, "start"))}
	err := s.check(root, workflowKind, "")
	if err != nil {
		return nil, err
	}
	if w.Globals, err = s.globals(field(root, "globals")); err != nil {
		return nil, err
	}
	steps := field(root, "steps")
	isTrigger := make(map[string]bool)
	for i, step := range steps.Content {
		step = resolve(step)
		id := stepID(step, i)
		if err := s.check(step, stepKind, id); err != nil {
			return nil, err
		}
		if slices.Contains([]string{"webhook", "cron", "kafka"}, text(field(step, "type"))) {
			isTrigger[id] = true
			w.Triggers = append(w.Triggers, trigger{ID: id, Type: text(field(step, "type"))})
			continue
		}
		made, err := s.step(step, id)
		if err != nil {
			return nil, err
		}
		w.Jobs = append(w.Jobs, made)
	}
	for i, step := range steps.Content {
		if err := s.next(&w, stepID(step, i), isTrigger, field(step, "next")); err != nil {
			return nil, err
		}
	}
	return json.Marshal(w)
}

func stepID(step *yaml.Node, i int) string {
	if id := text(field(step, "id")); id != "" {
		return id
	}
	if id := identifier(text(field(step, "name"))); id != "" {
		return id
	}
	return fmt.Sprintf("step-%d", i+1)
}

// step returns the job of a step.
func (s spec) step(step *yaml.Node, id string) (job, error) {
	made := job{ID: id, Name: text(field(step, "name"))}
	name := text(field(step, "adaptor"))
	if list := field(step, "adaptors"); name == "" && list != nil && len(list.Content) > 0 {
		name = text(list.Content[0])
	}
	made.Adaptor = adaptor(name)
	var err error
	of := fmt.Sprintf("the step %q", id)
	if made.Body, err = s.code(of, field(step, "expression")); err != nil {
		return made, err
	}
	if err := s.credential(&made, of, field(step, "configuration")); err != nil {
		return made, err
	}
	made.State, err = s.json(field(step, "state"))
	return made, err
}

// credential sets what a job logs in with: a name, a file, or the thing itself.
func (s spec) credential(to *job, of string, node *yaml.Node) error {
	name := text(node)
	var err error
	switch {
	case node == nil:
	case node.Kind == yaml.MappingNode:
		to.Credential, err = s.json(node)
	case strings.HasSuffix(name, ".json"):
		if to.Credential, err = s.open(of, node); err == nil && !json.Valid(to.Credential) {
			err = &Error{s.beside(name), "it is no JSON, as a credential has to be"}
		}
	default:
		to.CredentialID = name
	}
	return err
}

// code returns an expression, or the contents of the file that it names.
func (s spec) code(of string, node *yaml.Node) (string, error) {
	if path := field(node, "path"); path != nil {
		node = path
	} else if !strings.HasSuffix(text(node), ".js") || strings.Contains(text(node), "\n") {
		return text(node), nil
	}
	code, err := s.open(of, node)
	return string(code), err
}

// open returns the contents of the file that a part of this one names.
func (s spec) open(of string, node *yaml.Node) ([]byte, error) {
	data, err := s.load(s.beside(text(node)))
	if lost, ok := errors.AsType[*Error](err); ok {
		return nil, s.fail(node, "%s names the file %s: %s", of, text(node), lost.Problem)
	}
	return data, err
}

func (s spec) globals(node *yaml.Node) (json.RawMessage, error) {
	if node == nil {
		return nil, nil
	}
	code, err := s.code("globals", node)
	if err != nil {
		return nil, err
	}
	return json.Marshal(code)
}

// next adds the edges of a step, in the order of the file.
func (s spec) next(p *plan, from string, isTrigger map[string]bool, node *yaml.Node) error {
	if node == nil {
		return nil
	}
	if node.Kind == yaml.ScalarNode {
		return s.edge(p, node, from, node.Value, isTrigger[from], "", nil)
	}
	for _, to := range pairs(node) {
		condition, enabled := to.value, (*bool)(nil)
		if to.value.Kind == yaml.MappingNode {
			if err := s.check(to.value, wayKind, to.key); err != nil {
				return err
			}
			condition = field(to.value, "condition")
			if text(field(to.value, "disabled")) == "true" {
				enabled = new(bool)
			}
		}
		if err := s.edge(p, to.value, from, to.key, isTrigger[from], text(condition), enabled); err != nil {
			return err
		}
	}
	return nil
}

// edge adds one. A condition that is true or always holds, never and false do not.
func (s spec) edge(p *plan, at *yaml.Node, from, to string, fromTrigger bool, condition string, enabled *bool) error {
	if !slices.ContainsFunc(p.Jobs, func(j job) bool { return j.ID == to }) {
		return s.fail(at, "the step %q leads to %q, and there is no such step", from, to)
	}
	switch condition {
	case "true":
		condition = ""
	case "false", "never":
		condition, enabled = "", new(bool)
	}
	e := edge{ID: from + "-" + to, TargetJobID: to, Condition: condition, Enabled: enabled}
	if fromTrigger {
		e.SourceTriggerID = from
	} else {
		e.SourceJobID = from
	}
	p.Edges = append(p.Edges, e)
	return nil
}

// older returns the plan of a workflow with triggers, jobs and edges by their names, as older tools write it.
func (s spec) older(root, credentials *yaml.Node) ([]byte, error) {
	w := plan{Name: text(field(root, "name"))}
	triggers := make(map[string]bool)
	for _, p := range pairs(field(root, "triggers")) {
		triggers[p.key] = true
		w.Triggers = append(w.Triggers, trigger{ID: p.key, Type: text(field(p.value, "type"))})
	}
	for _, p := range pairs(field(root, "jobs")) {
		err := s.check(p.value, jobKind, p.key)
		if err != nil {
			return nil, err
		}
		made := job{ID: p.key, Name: text(field(p.value, "name")), Adaptor: adaptor(text(field(p.value, "adaptor")))}
		if made.Body, err = s.code(fmt.Sprintf("the job %q", p.key), field(p.value, "body")); err != nil {
			return nil, err
		}
		made.CredentialID = text(field(p.value, "credential"))
		if c := field(credentials, made.CredentialID); c != nil && text(field(c, "name")) != "" {
			made.CredentialID = text(field(c, "name"))
		}
		w.Jobs = append(w.Jobs, made)
	}
	for _, p := range pairs(field(root, "edges")) {
		if err := s.check(p.value, edgeKind, p.key); err != nil {
			return nil, err
		}
		from := text(field(p.value, "source_job"))
		if from == "" {
			from = text(field(p.value, "source_trigger"))
		}
		if !triggers[from] && !slices.ContainsFunc(w.Jobs, func(j job) bool { return j.ID == from }) {
			return nil, s.fail(p.value, "the edge %q comes from %q, and there is no such job or trigger", p.key, from)
		}
		condition := text(field(p.value, "condition_type"))
		if condition == "js_expression" {
			if condition = text(field(p.value, "condition_expression")); condition == "" { // which would hold always
				return nil, s.fail(p.value, "the edge %q has the condition_type js_expression and no condition_expression", p.key)
			}
		}
		var enabled *bool
		if text(field(p.value, "enabled")) == "false" {
			enabled = new(bool)
		}
		if err := s.edge(&w, p.value, from, text(field(p.value, "target_job")), triggers[from], condition, enabled); err != nil {
			return nil, err
		}
	}
	return json.Marshal(w)
}

// beside returns the path of a file that the file names.
func (s spec) beside(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(s.file), filepath.FromSlash(name))
}

// json returns the JSON of a node; nil for none.
func (s spec) json(node *yaml.Node) (json.RawMessage, error) {
	if node == nil {
		return nil, nil
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return nil, s.fail(node, "%v", err)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, s.fail(node, "it cannot be written as JSON: %v", err)
	}
	return data, nil
}

// field returns the value of a field, nil if there is none, or nothing in it.
func field(node *yaml.Node, name string) *yaml.Node {
	for _, p := range pairs(node) {
		if p.key == name && p.width == 2 && p.value.ShortTag() != "!!null" {
			return p.value
		}
	}
	return nil
}

// pair is a field of a mapping, or an item of a list, which has no key.
type pair struct {
	key   string
	value *yaml.Node
	width int // how many nodes it is
}

// pairs returns the fields of a mapping or the items of a list, in their order.
func pairs(node *yaml.Node) []pair {
	if node == nil {
		return nil
	}
	var all []pair
	switch node = resolve(node); node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			all = append(all, pair{node.Content[i].Value, resolve(node.Content[i+1]), 2})
		}
	case yaml.SequenceNode:
		for _, item := range node.Content {
			all = append(all, pair{"", resolve(item), 1})
		}
	}
	return all
}

// resolve returns the node that an alias stands for.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// text returns the text of a scalar, empty for anything else.
func text(node *yaml.Node) string {
	if node == nil || node.Kind != yaml.ScalarNode || node.ShortTag() == "!!null" {
		return ""
	}
	return node.Value
}
