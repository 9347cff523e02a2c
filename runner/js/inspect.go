package js

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/phxworker/phxworker/runner/js/chunk"
	"github.com/phxworker/phxworker/runner/js/vm"
)

// Inspection is what [Inspect] found out about a package.
type Inspection struct {
	// Exports are what its main module exports.
	Exports []string
	// Missing are functions of Node that were called and that nothing stands in for.
	Missing []string
	// Took is the time of the processor that it took to load all of its exports; on other systems than Linux, time that passed.
	Took time.Duration
}

// The causes for which nothing is known of a package that was to be compiled or looked at.
var (
	// ErrNoVM is for the want of memory, or whatever else keeps QuickJS from starting.
	ErrNoVM = errors.New("QuickJS does not start")
	// ErrInspection is for a package that was not loaded within 10 seconds.
	ErrInspection = errors.New("it takes more than 10s to load")
)

const (
	// What a package may take to be looked at: more than one that is of any use here.
	mostInspection       = 10 * time.Second
	mostInspectionMemory = 256 << 20
)

// Inspect loads a package with all of its exports, in a VM of its own. An error is why it cannot be loaded, or [ErrNoVM] or
// [ErrInspection]; what was missing by then, and what it took, is told with it.
func Inspect(ctx context.Context, one *Package) (Inspection, error) {
	prelude, err := compilePrelude()
	if err != nil {
		return Inspection{}, fmt.Errorf("%w: %w", ErrNoVM, err)
	}
	runtime.LockOSThread() // whose time is counted
	defer runtime.UnlockOSThread()
	var found Inspection
	box, err := newSandbox(prelude)
	if err != nil {
		return Inspection{}, fmt.Errorf("%w: %w", ErrNoVM, err)
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
	ctx, cancel := context.WithTimeoutCause(ctx, mostInspection, ErrInspection)
	defer cancel()
	defer box.guard(ctx)()
	box.chunks = one.Chunks.Bytecode
	begin := spent()
	answer, err := box.call("exportsOf", one.Entry)
	found.Took = spent() - begin
	if ctx.Err() != nil {
		return found, context.Cause(ctx)
	}
	if err != nil {
		return found, err
	}
	text, _ := answer.(string)
	return found, json.Unmarshal([]byte(text), &found.Exports)
}

// Compile makes the bytecode of a chunk, without the text of its functions, for [chunk.OpenCache]. The error is [ErrNoVM], or
// what is wrong with the text.
func Compile(text string) ([]byte, error) {
	compiler, err := vm.New()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoVM, err)
	}
	defer compiler.Close()
	return compiler.Compile(text)
}
