// Package examples holds plans that show what a worker does with them, the good
// ends and the bad ones.
//
// A file is a plan as Lightning would send it, with these fields beside:
//
//	about        what there is to see
//	queue        the queue it is put into; default if absent
//	expect       how the run ends: reason, and error_type unless a success
//	dataclip     the run's input, if any
//	credentials  bodies by id, if any
//
// The plan has no id, so that the mock server takes the file as often as it is
// posted to it.
package examples

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.json
var files embed.FS

// Files returns the files *.json as they are.
func Files() fs.FS { return files }

// Example is one file.
type Example struct {
	// Name is the file's name without .json. It is the id of the plan.
	Name  string
	About string
	Queue string
	// Plan is what a worker gets: without the fields that are not a plan's.
	Plan json.RawMessage
	// Dataclip is the run's input. Nil if there is none.
	Dataclip    json.RawMessage
	Credentials map[string]json.RawMessage
	Expect      Expectation
}

// Expectation is how a run is meant to end.
type Expectation struct {
	Reason    string `json:"reason"`
	ErrorType string `json:"error_type"`
}

// All returns every example, by name. An error is that of [Parse].
func All() ([]Example, error) { return Load(files) }

// Load returns the examples of the files *.json in a folder, by name.
func Load(dir fs.FS) ([]Example, error) {
	names, err := fs.Glob(dir, "*.json")
	if err != nil {
		return nil, err
	}
	all := make([]Example, len(names))
	for i, name := range names {
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, fmt.Errorf("example: %w", err)
		}
		if all[i], err = Parse(name, data); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Parse reads a file. The error is a [*FileError] that names the file and the
// field.
func Parse(file string, data []byte) (Example, error) {
	e := Example{Name: strings.TrimSuffix(path.Base(file), ".json")}
	p := &parser{file: file}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, &p.fields); errors.As(err, &syntax) {
		return Example{}, p.fault("", fmt.Sprintf("is not JSON: %v, after %d bytes", syntax, syntax.Offset))
	}
	if p.fields == nil {
		return Example{}, p.fault("", "is not a JSON object")
	}
	p.read(&e)
	if p.err != nil {
		return Example{}, p.err
	}
	return e, nil
}
