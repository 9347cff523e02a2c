package js

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"modernc.org/quickjs"

	"github.com/phxworker/phxworker/runner/js/chunk"
)

// Inspection is what [Inspect] found out about a package.
type Inspection struct {
	// Exports are what its main module exports.
	Exports []string
	// Missing are functions of Node that were called and that nothing stands in for.
	Missing []string
	// Took is how long it took to load all of its exports.
	Took time.Duration
}

const (
	// What a package may take to be looked at: more than one that is of any use here.
	mostInspection       = 10 * time.Second
	mostInspectionMemory = 256 << 20
)

// Inspect loads a package with all of its exports, in a VM of its own. An error is why it cannot be loaded; what was missing by then is told with it.
func Inspect(ctx context.Context, one *Package) (Inspection, error) {
	prelude, err := compilePrelude()
	if err != nil {
		return Inspection{}, err
	}
	var found Inspection
	box, err := newSandbox(prelude)
	if err != nil {
		return Inspection{}, err
	}
	defer box.close()
	box.open(mostInspectionMemory, func(operation string, args []any) (any, error) {
		switch {
		case operation != "call":
		case stringAt(args, 0) == chunk.Missing:
			found.Missing = append(found.Missing, stringAt(args, 1))
		default:
			return chunk.Call(stringAt(args, 0), args[1:])
		}
		return nil, nil
	})
	ctx, cancel := context.WithTimeoutCause(ctx, mostInspection, fmt.Errorf("it takes more than %v to load", mostInspection))
	defer cancel()
	defer box.guard(ctx)()
	box.chunks = one.Chunks.Bytecode
	begin := time.Now()
	answer, err := box.call("exportsOf", one.Entry)
	found.Took = time.Since(begin)
	if ctx.Err() != nil {
		return Inspection{}, context.Cause(ctx)
	}
	if err != nil {
		return found, err
	}
	text, _ := answer.(string)
	return found, json.Unmarshal([]byte(text), &found.Exports)
}

// Compile makes the bytecode of a chunk, without the text of its functions, for [chunk.OpenCache].
func Compile(text string) ([]byte, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, err
	}
	defer func() { _ = vm.Close() }()
	w, err := newWatch(vm)
	if err != nil {
		return nil, err
	}
	defer w.close()
	w.stripSource()
	return vm.Compile(text, quickjs.EvalGlobal)
}
