package js

import (
	"context"
	"fmt"
	"time"

	"github.com/phxworker/phxworker/runner/js/vm"
)

// sandbox is a VM that has run the prelude. It is used by one goroutine at a time.
type sandbox struct {
	vm      *vm.VM
	prelude *prelude
	entry   vm.Value // the prelude's function for Go to call
	host    hostFunc
	// chunks returns the bytecode of a chunk of a package; nil where there are none.
	chunks func(id string) ([]byte, error)
}

// hostFunc is what the prelude can ask Go for: an operation and its arguments,
// which are strings, numbers or nil for undefined.
type hostFunc func(operation string, args []any) (any, error)

const (
	// overhead is the memory that an empty VM with its prelude may take on top
	// of a job's limit.
	overhead = 1 << 20
	// looseThreshold is the memory at which a VM first looks for garbage that refers to itself, where its limit is far away.
	looseThreshold = 4 << 20
	// mostPending bounds how many jobs of promises a VM executes at a time.
	mostPending = 1 << 20
)

// newSandbox returns a VM that has run the prelude. It answers nothing yet; see [sandbox.open].
func newSandbox(p *prelude) (*sandbox, error) {
	made, err := vm.New()
	if err != nil {
		return nil, fmt.Errorf("cannot start a JavaScript VM: %w", err)
	}
	box := &sandbox{vm: made, prelude: p}
	if err := box.start(); err != nil {
		box.close()
		return nil, fmt.Errorf("cannot start a JavaScript VM: %w", err)
	}
	return box, nil
}

func (b *sandbox) start() error {
	// The prelude makes no garbage that would be worth a collection.
	b.vm.CollectFrom(overhead)
	begin, err := b.vm.Load(b.prelude.core)
	if err != nil {
		return err
	}
	host := b.vm.Function(func(args []any) (any, error) { return b.host(stringAt(args, 0), args[1:]) })
	native := b.vm.Function(func(args []any) (any, error) { return b.load(stringAt(args, 0)), nil })
	entry, err := b.vm.Call(begin.(vm.Value), host, native)
	if err != nil {
		return err
	}
	b.entry = entry.(vm.Value)
	return b.vm.Keep()
}

// open has host answer the VM, whose code may allocate memory bytes, no matter how many when 0.
func (b *sandbox) open(memory uint64, host hostFunc) {
	b.host = host
	b.limitMemory(memory)
	// Packages that are loaded are no garbage: where there is room for them, nothing looks for it meanwhile.
	if memory == 0 || memory > 16*looseThreshold {
		b.vm.CollectFrom(looseThreshold)
	}
}

func (b *sandbox) limitMemory(bytes uint64) {
	if bytes > 0 {
		b.vm.LimitMemory(bytes + overhead)
	}
}

// reset makes the VM what it was before it was opened, and reports whether it could.
func (b *sandbox) reset() bool {
	b.host, b.chunks = nil, nil
	return b.vm.Reset()
}

func (b *sandbox) close() { b.vm.Close() }

// call calls one of the prelude's entries.
func (b *sandbox) call(entry string, args ...any) (any, error) {
	return b.vm.Call(b.entry, append([]any{entry}, args...)...)
}

// load returns the function of a late file of the prelude or of a chunk, or the words of why there is none.
func (b *sandbox) load(id string) any {
	code, err := b.prelude.late[id], error(nil)
	if code == nil {
		code, err = b.chunks(id)
	}
	if err == nil {
		var made any
		if made, err = b.vm.Load(code); err == nil {
			return made
		}
	}
	return err.Error()
}

// guard stops the VM when ctx ends, until the function it returns is called.
func (b *sandbox) guard(ctx context.Context) (release func()) {
	released, stopped := make(chan struct{}), make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(stopped)
		again := time.NewTicker(time.Millisecond)
		defer again.Stop()
		for {
			b.vm.Interrupt()
			select {
			case <-again.C:
			case <-released:
				return
			}
		}
	})
	return func() {
		close(released)
		if !cancel() {
			<-stopped
		}
	}
}
