// Package workflow reads workflows as people and OpenFn's tools keep them in files, and makes plans
// of them:
//
//   - a plan, as a server sends it (JSON, or the same as YAML): it has "jobs", and may carry the
//     dataclip and the credentials of its run
//   - a workflow of OpenFn's tools (YAML or JSON): it has "steps", whose code is in files beside it
//   - a project of theirs, with "workflows", in today's form or in that of older tools
//   - a folder with one of these: openfn.yaml, project.yaml or workflow.yaml, or a workflow alone
//   - one job (.js)
//
// What a file of OpenFn's tools says and nobody here knows is left out of the plan with a warning; what
// cannot be followed (a file that is not there, an edge to no step, a list for a text) is an [*Error].
package workflow

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/phxworker/phxworker/mockserver/lightning"
)

// Workflow is what a file has.
type Workflow struct {
	// Plan is the plan as a server has it, and Whole what it was before Options.Start and
	// Options.End, for whoever looks for mistakes in it.
	Plan, Whole json.RawMessage
	// Warnings are what in the file can hardly mean what it says, a sentence each.
	Warnings []string
	// Names are those of the jobs, or their ids, and Code what is in them, by id.
	Names, Code map[string]string
	// Needs are the credentials that jobs name which may be executed, each with a job that does; Spare
	// those that other jobs name.
	Needs, Spare map[string]string
	// Globals reports whether the plan has globals.
	Globals bool
	// Input is the dataclip that the file brings; nil if it brings none.
	Input json.RawMessage
	// Credentials are bodies that the file brings, by the ids that jobs name them by.
	Credentials map[string]json.RawMessage
	// Files are all that were read, or could not be.
	Files []string
}

// Options say how to read, and what to change.
type Options struct {
	// Adaptor is that of a job alone, such as "http" or "@openfn/language-http@7.2.10". Defaults
	// to the common one.
	Adaptor string
	// Workflow is the id or the name of one of a project's workflows. It need not be set
	// where there is but one.
	Workflow string
	// ID is that of the run.
	ID string
	// Start and End are the ids or the names of the steps to begin with, and to go no further
	// than. They default to those of the workflow.
	Start, End string
}

// Error is a file that is no workflow.
type Error struct {
	File    string
	Problem string // what is wrong with it, and what to do
}

func (e *Error) Error() string { return e.File + ": " + e.Problem }

// Read returns the workflow of a file or of a folder. The error is an [*Error]; the workflow
// then has Files alone, those that it was looked for in.
func Read(path string, options Options) (*Workflow, error) {
	r := &reader{options: options}
	w, err := r.read(path)
	if err != nil {
		w = new(Workflow)
	}
	w.Files, w.Warnings = r.files, r.warnings
	return w, err
}

func (r *reader) read(path string) (*Workflow, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &Error{path, reason(err)}
	}
	read := r.readFile
	if info.IsDir() {
		read = r.readFolder
	}
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	if name := r.options.Workflow; name != "" && !r.chosen {
		return nil, &Error{path, fmt.Sprintf("there is no workflow %q: it is no project, leave --workflow out", name)}
	}
	return r.finish(path, data)
}

// finish returns the workflow of a plan, with what the options change in it. What the plan
// has and nobody here knows goes on to the server.
func (r *reader) finish(path string, plan []byte) (*Workflow, error) {
	var fields map[string]json.RawMessage
	var known struct {
		Jobs        []job                        `json:"jobs"`
		Edges       []map[string]json.RawMessage `json:"edges"`
		Credentials map[string]json.RawMessage   `json:"credentials"`
	}
	if err := errors.Join(json.Unmarshal(plan, &known), json.Unmarshal(plan, &fields)); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, &Error{path, fmt.Sprintf("%q must not be of type %s", wrong.Field, wrong.Value)}
		}
		return nil, &Error{path, err.Error()}
	}
	w := &Workflow{
		Input: fields["dataclip"], Credentials: known.Credentials,
		Names: make(map[string]string), Code: make(map[string]string),
		Globals: len(fields["globals"]) > 0 && string(fields["globals"]) != "null",
	}
	for _, j := range known.Jobs {
		w.Names[j.ID], w.Code[j.ID] = cmp.Or(j.Name, j.ID), j.Body
	}
	for _, ours := range []string{"dataclip", "credentials", "about", "queue", "expect"} {
		delete(fields, ours)
	}
	set := func(name string, value any) {
		fields[name], _ = json.Marshal(value) // texts and what was JSON always encode
	}
	set("id", r.options.ID)
	var err error
	if w.Whole, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	if r.options.Start != "" {
		id, err := find(known.Jobs, r.options.Start)
		if err != nil {
			return nil, &Error{path, err.Error()}
		}
		set("starting_node_id", id)
	}
	if r.options.End != "" {
		id, err := find(known.Jobs, r.options.End)
		if err != nil {
			return nil, &Error{path, err.Error()}
		}
		known.Edges = slices.DeleteFunc(known.Edges, func(e map[string]json.RawMessage) bool { return member(e, "source_job_id") == id })
		set("edges", known.Edges)
	}
	w.Needs, w.Spare = needs(known.Jobs, reached(startOf(fields), known.Edges))
	w.Plan, err = json.Marshal(fields)
	return w, err
}

// reader reads one workflow.
type reader struct {
	options Options
	files   []string
	chosen  bool // it is of a project, where Options.Workflow has a say

	warnings []string
}

// load returns the contents of a file.
func (r *reader) load(path string) ([]byte, error) {
	r.files = append(r.files, path)
	data, err := os.ReadFile(path) //nolint:gosec // what a person names, or the workflow of theirs
	if err != nil {
		return nil, &Error{path, reason(err)}
	}
	return data, nil
}

// reason words an error of a file for a person.
func reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return "it cannot be read: " + err.Error()
}

// known are the files that a folder is looked through for, the first counts.
var known = []string{"openfn.yaml", "openfn.json", "project.yaml", "project.json", "workflow.yaml", "workflow.yml", "workflow.json"}

func (r *reader) readFolder(dir string) ([]byte, error) {
	for _, name := range known {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return r.readFile(path)
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err == nil && len(found) == 1 {
		return r.readFile(found[0])
	}
	return nil, &Error{dir, fmt.Sprintf("there is no workflow in this folder: none of %s, and not one .yaml alone; name the file", strings.Join(known, ", "))}
}

// readFile returns the plan of a file.
func (r *reader) readFile(path string) ([]byte, error) {
	data, err := r.load(path)
	if err != nil {
		return nil, err
	}
	switch extension := strings.ToLower(filepath.Ext(path)); {
	case IsJob(path):
		return r.job(path, data)
	case extension == ".json", extension == ".yaml", extension == ".yml":
		return r.document(path, data)
	}
	return nil, &Error{path, "it is neither a job (.js) nor a workflow (.json, .yaml): its name must end so"}
}

// IsJob reports whether a file is a job alone, by its name. It has no place to name its adaptor.
func IsJob(path string) bool {
	extension := strings.ToLower(filepath.Ext(path))
	return extension == ".js" || extension == ".mjs"
}

// job returns the plan of one job.
func (r *reader) job(path string, code []byte) ([]byte, error) {
	if len(bytes.TrimSpace(code)) == 0 { // a runtime would pass over it, and the run be a success
		return nil, &Error{path, "there is no code in it"}
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	id := cmp.Or(identifier(name), "job") // a name may have no letter that ids have
	return json.Marshal(plan{Name: name, Jobs: []job{{ID: id, Name: name, Adaptor: adaptor(r.options.Adaptor), Body: string(code)}}})
}

// document returns the plan of a file by what the file has.
func (r *reader) document(path string, data []byte) ([]byte, error) {
	var document yaml.Node // JSON is YAML as well, and its nodes keep the order of the fields
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, &Error{path, "it cannot be read: " + strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "yaml: ")}
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, &Error{path, `it is no workflow: there must be an object with "jobs", "steps" or "workflows"`}
	}
	if problem := lightning.Syntax(data); problem != "" && strings.EqualFold(filepath.Ext(path), ".json") {
		return nil, &Error{path, "it " + problem}
	}
	root := document.Content[0]
	s := spec{reader: r, file: path}
	switch wrapped := field(root, "workflow"); {
	case field(root, "jobs") != nil && field(root, "jobs").Kind == yaml.SequenceNode:
		if json.Valid(data) {
			return data, nil
		}
		return s.json(root)
	case field(root, "steps") != nil:
		return s.workflow(root)
	case wrapped != nil && field(wrapped, "steps") != nil:
		return s.workflow(wrapped)
	case field(root, "workflows") != nil && field(root, "workflows").Kind != yaml.ScalarNode:
		return s.project(field(root, "workflows"), field(root, "credentials"))
	case field(root, "jobs") != nil:
		return s.older(root, nil)
	case field(root, "workspace") != nil || field(root, "project") != nil || strings.HasPrefix(filepath.Base(path), "openfn."):
		return r.workspace(path, root)
	}
	return nil, &Error{path, `it is no workflow: it has none of "jobs", "steps" and "workflows"`}
}

// workspace returns the plan of a workflow of those in the folders below an openfn.yaml.
func (r *reader) workspace(path string, root *yaml.Node) ([]byte, error) {
	dir := "workflows"
	if w := field(root, "workspace"); w != nil {
		root = w
	}
	if dirs := field(root, "dirs"); dirs != nil && text(field(dirs, "workflows")) != "" {
		dir = text(field(dirs, "workflows"))
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(path), dir, "*", "*.yaml"))
	if err != nil || len(found) == 0 {
		return nil, &Error{path, fmt.Sprintf("there is no workflow in the folder %s beside it", dir)}
	}
	var names []string
	for _, file := range found {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if name == r.options.Workflow || r.options.Workflow == "" && len(found) == 1 {
			r.chosen = true
			return r.readFile(file)
		}
		names = append(names, name)
	}
	return nil, choose(path, r.options.Workflow, names)
}

// choose says that one of several workflows has to be named.
func choose(file, asked string, names []string) *Error {
	slices.Sort(names)
	if asked == "" {
		return &Error{file, "there are several workflows: say --workflow with one of " + strings.Join(names, ", ")}
	}
	return &Error{file, fmt.Sprintf("there is no workflow %q: there are %s", asked, strings.Join(names, ", "))}
}
