package js

import (
	"context"
	"fmt"
	"time"

	"modernc.org/quickjs"
)

// sandbox is a VM that has run the prelude. It is used by one goroutine.
type sandbox struct {
	vm      *quickjs.VM
	watch   *watch
	prelude *prelude
	entry   quickjs.Value // the prelude's function for Go to call
	host    hostFunc
	// chunks returns the bytecode of a chunk of a package; nil where there are none.
	chunks func(id string) ([]byte, error)
}

// hostFunc is what the prelude can ask Go for: an operation and its arguments,
// which are strings, numbers or quickjs.Undefined.
type hostFunc func(operation string, args []any) (any, error)

const (
	// The two are names of globals, which exist for a moment only and never
	// while code of a job runs.
	hostName      = "__host"
	nativeName    = "__native"
	rejectionName = "__rejection"
	// overhead is the memory that an empty VM with its prelude may take on top
	// of a job's limit.
	overhead = 1 << 20
	// looseThreshold is the memory at which a VM first looks for garbage that refers to itself, where its limit is far away.
	looseThreshold = 4 << 20
)

// newSandbox returns a VM that has run the prelude. It answers nothing yet; see [sandbox.open].
func newSandbox(p *prelude) (*sandbox, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, fmt.Errorf("cannot start a JavaScript VM: %w", err)
	}
	box := &sandbox{vm: vm, prelude: p}
	if err := box.start(); err != nil {
		box.close()
		return nil, fmt.Errorf("cannot start a JavaScript VM: %w", err)
	}
	return box, nil
}

func (b *sandbox) start() (err error) {
	if b.watch, err = newWatch(b.vm); err != nil {
		return err
	}
	// The prelude makes no garbage that would be worth a collection.
	b.vm.SetGCThreshold(overhead)
	err = b.vm.RegisterHostFunc(hostName, func(args []any) (any, error) {
		operation, _ := args[0].(string)
		return b.host(operation, args[1:])
	})
	if err != nil {
		return err
	}
	if err := b.vm.RegisterFunc(nativeName, b.load, false); err != nil {
		return err
	}
	b.entry, err = b.vm.EvalBytecodeValue(b.prelude.core)
	return err
}

// open has host answer the VM, whose code may allocate memory bytes, no matter how many when 0.
func (b *sandbox) open(memory uint64, host hostFunc) {
	b.host = host
	b.limitMemory(memory)
	// Packages that are loaded are no garbage: where there is room for them, nothing looks for it meanwhile.
	if memory == 0 || memory > 16*looseThreshold {
		b.vm.SetGCThreshold(looseThreshold)
	}
}

func (b *sandbox) limitMemory(bytes uint64) {
	if bytes > 0 {
		b.vm.SetMemoryLimit(uintptr(bytes + overhead))
	}
}

// call calls one of the prelude's entries.
func (b *sandbox) call(entry string, args ...any) (any, error) {
	return b.entry.Call(quickjs.UndefinedValue, append([]any{entry}, args...)...)
}

// drain runs the jobs that promises have queued, at most the million or so
// that the VM does at a time. more reports whether that was not all.
func (b *sandbox) drain() (more bool, err error) {
	ran, err := b.vm.ExecutePendingJobs()
	if ran >= 1<<20 {
		return true, nil
	}
	return false, err
}

// load returns the function of a late file of the prelude or of a chunk, or the words of why there is none.
func (b *sandbox) load(id string) quickjs.Value {
	code, err := b.prelude.late[id], error(nil)
	if code == nil {
		code, err = b.chunks(id)
	}
	if err == nil {
		var made quickjs.Value
		if made, err = b.vm.EvalBytecodeValue(code); err == nil {
			return made
		}
	}
	text, _ := b.vm.NewString(err.Error())
	return text
}

// guard stops the VM when ctx ends, until the function it returns is called.
func (b *sandbox) guard(ctx context.Context) (release func()) {
	released, stopped := make(chan struct{}), make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(stopped)
		// An interrupt that comes between two calls into the VM is lost.
		again := time.NewTicker(time.Millisecond)
		defer again.Stop()
		for {
			b.vm.Interrupt()
			b.watch.press()
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

func (b *sandbox) close() {
	if b.watch != nil {
		b.watch.close()
	}
	if b.entry.VM() != nil {
		b.entry.Free()
	}
	// Nothing can be done about a VM that does not close.
	_ = b.vm.Close()
}
