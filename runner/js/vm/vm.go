// Package vm is JavaScript in QuickJS, in VMs that are used again. It drives modernc.org/libquickjs, which is QuickJS's C as Go.
//
// # A VM is put back
//
// A VM that has run what all its users need is expensive: a millisecond, where most code that is to run in it takes less. So
// [VM.Keep] takes a picture of all of the VM's memory, and [VM.Reset] puts that back, at the same addresses: some hundred kB are
// copied, and nothing of what ran in between is left, whatever it was, for there is nothing else that the engine could keep it
// in. It has no globals that change, but for what this package does not use: ids of classes of its users, threads that wait for
// each other, and the modules std and os.
//
// What would be the same in each use is made anew: the state of Math.random. Time has no origin in the engine. On Go's side are
// the rejected promises, what was exhausted, and the functions that serve a VM; they are those of a new one, too.
//
// All of the engine's memory is allocated here (memory.go), so that a VM is closed by freeing it: no code of the engine runs for
// that. Hence a VM in whose engine something panicked, or ended its goroutine, is closed like another. It cannot be reset.
//
// # Concurrency
//
// A VM is used by one goroutine at a time, but for [VM.Interrupt].
package vm

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/libquickjs"
)

// Version is QuickJS's.
const Version = lib.MCONFIG_VERSION

// VM is a runtime of QuickJS with one context. It is made by [New], and closed by [VM.Close].
type VM struct {
	// Modules returns the text of a module by the name that it is imported by. Nil for none.
	Modules func(name string) (text string, err error)
	// Resolve is asked each time that the module base imports one of a name; an error refuses that. Nil for no question.
	Resolve func(base, name string) error

	tls     *libc.TLS
	memory  memory
	runtime *lib.TJSRuntime
	context *lib.TJSContext
	rt, ctx uintptr // the same

	// The engine holds these as plain addresses.
	mallocs   lib.TJSMallocFunctions
	hooks     []any
	caller    uintptr // of functions
	functions []Func
	kept      int // of the functions, those that were there when the picture was taken

	under int // calls into the engine that have not returned

	interrupted atomic.Bool
	starved     atomic.Bool // the next allocation fails
	exhausted   bool        // an allocation failed for want of memory
	peak        uint64

	rejected  map[lib.TJSValue]rejection // by promise: those rejected and not handled
	rejection int                        // counts rejections
}

var errMemory = errors.New("there is no memory for a JavaScript VM")

// New returns a VM without a limit on its memory.
func New() (*VM, error) {
	v := &VM{tls: libc.NewTLS(), rejected: make(map[lib.TJSValue]rejection)}
	v.memory.tls = v.tls
	v.mallocs = lib.TJSMallocFunctions{
		Fjs_malloc: v.hook(v.malloc), Fjs_free: v.hook(v.free), Fjs_realloc: v.hook(v.realloc), Fjs_malloc_usable_size: v.hook(usable),
	}
	if v.rt = lib.XJS_NewRuntime2(v.tls, uintptr(unsafe.Pointer(&v.mallocs)), 0); v.rt != 0 {
		v.runtime = at[lib.TJSRuntime](v.rt)
		v.ctx = lib.XJS_NewContext(v.tls, v.rt)
	}
	if v.ctx == 0 {
		v.Close()
		return nil, errMemory
	}
	v.context, v.caller = at[lib.TJSContext](v.ctx), v.hook(v.called)
	lib.XJS_SetInterruptHandler(v.tls, v.rt, v.hook(v.stops), 0)
	lib.XJS_SetHostPromiseRejectionTracker(v.tls, v.rt, v.hook(v.track), 0)
	v.runtime.Fsab_funcs = lib.TJSSharedArrayBufferFunctions{Fsab_alloc: v.hook(v.share), Fsab_free: v.hook(v.unshare)}
	lib.XJS_SetModuleLoaderFunc(v.tls, v.rt, v.hook(v.moduleName), v.hook(v.module), 0)
	return v, nil
}

// hook returns the address by which the engine's code, which was C, calls a Go function. It is good until the VM is closed.
func (v *VM) hook(function any) uintptr {
	v.hooks = append(v.hooks, function)
	return (*[2]uintptr)(unsafe.Pointer(&function))[1] // the data word of the interface
}

// Keep takes the picture that [VM.Reset] puts back.
func (v *VM) Keep() error {
	if !v.memory.picture() {
		return errMemory
	}
	v.kept = len(v.functions)
	return nil
}

// Reset makes the VM what it was at [VM.Keep], and reports whether it could: if not, it can only be closed. No [Value] that was
// made since may be used again.
func (v *VM) Reset() bool {
	if v.under != 0 || v.memory.pictured == 0 {
		return false
	}
	v.memory.restore()
	v.context.Frandom_state = rand.Uint64() | 1 // it must not be 0
	clear(v.rejected)
	v.functions = v.functions[:v.kept]
	v.interrupted.Store(false)
	v.starved.Store(false)
	v.Modules, v.Resolve, v.rejection, v.exhausted, v.peak = nil, nil, 0, false, v.Allocated()
	return true
}

// Close frees what the VM has allocated.
func (v *VM) Close() {
	v.memory.drop(0)
	v.tls.Close()
}

// LimitMemory lets the VM hold that many bytes at most. What would need more fails with an error that code can catch, and the VM is
// interrupted; see [VM.Exhausted].
func (v *VM) LimitMemory(bytes uint64) {
	v.state().Fmalloc_limit = lib.Tsize_t(min(bytes, math.MaxUint)) //nolint:unconvert // smaller on other platforms
}

// CollectFrom has the VM look for garbage that refers to itself once it holds that many bytes, and again when it holds half as many more.
func (v *VM) CollectFrom(bytes uint64) {
	v.runtime.Fmalloc_gc_threshold = lib.Tsize_t(bytes) //nolint:unconvert // smaller on other platforms
}

// Allocated returns how many bytes the VM holds.
func (v *VM) Allocated() uint64 {
	return uint64(v.state().Fmalloc_size) //nolint:unconvert // smaller on other platforms
}

// Peak returns the most bytes that the VM has held since it was made or reset.
func (v *VM) Peak() uint64 { return v.peak }

// Exhausted reports whether an allocation has failed since the VM was made or reset, even if code has caught the error.
func (v *VM) Exhausted() bool { return v.exhausted }

func (v *VM) state() *lib.TJSMallocState { return &v.runtime.Fmalloc_ctx.Fmalloc_state }

// Interrupt ends what the VM executes, by an error that no code can catch, and all that it is to execute until it is reset. Any
// goroutine may call it until the VM is reset or closed.
//
// The VM looks for interrupts at each 10,000th call or loop, of which this makes the next one. It counts without locks, so that
// its next count may undo this: call it again while there is need. A VM that has not looked by then is in the middle of a call of its
// own, such as JSON.stringify, that does not look: the next allocation fails, and the call with it.
func (v *VM) Interrupt() {
	v.interrupted.Store(true)
	if atomic.SwapInt32(&v.context.Finterrupt_counter, 0) == 0 {
		v.starved.Store(true)
	}
}

func (v *VM) stops(*libc.TLS, uintptr, uintptr) int32 {
	if v.interrupted.Load() {
		return 1
	}
	return 0
}

// share allocates a SharedArrayBuffer, with all that it may grow to: where nobody serves it, the engine allocates what it begins
// with, and lets it grow into memory of others all the same.
func (v *VM) share(tls *libc.TLS, _ uintptr, size lib.Tsize_t) uintptr {
	return lib.Xjs_malloc(tls, v.ctx, size)
}

func (v *VM) unshare(tls *libc.TLS, _, address uintptr) { lib.Xjs_free_rt(tls, v.rt, address) }

// The engine's own allocations, where state counts them: it is on the stack while a runtime is made. Each counts with its header.

func (v *VM) malloc(_ *libc.TLS, state uintptr, size lib.Tsize_t) uintptr {
	s := at[lib.TJSMallocState](state)
	if !v.admits(s, size) {
		return 0
	}
	address := v.memory.allocate(uintptr(size))
	if address == 0 {
		v.exhaust()
		return 0
	}
	s.Fmalloc_count++
	v.count(s, lib.Tsize_t(headerOf(address).size+headerSize))
	return address
}

func (v *VM) realloc(tls *libc.TLS, state, address uintptr, size lib.Tsize_t) uintptr {
	s := at[lib.TJSMallocState](state)
	switch {
	case address == 0 && size == 0:
		return 0
	case address == 0:
		return v.malloc(tls, state, size)
	case size == 0:
		v.free(tls, state, address)
		return 0
	}
	had := lib.Tsize_t(headerOf(address).size)
	if size <= had {
		return address
	}
	if !v.admits(s, size-had) {
		return 0
	}
	moved := v.memory.resize(address, uintptr(size))
	if moved == 0 {
		v.exhaust()
		return 0
	}
	v.count(s, lib.Tsize_t(headerOf(moved).size)-had)
	return moved
}

func (v *VM) free(_ *libc.TLS, state, address uintptr) {
	if address == 0 {
		return
	}
	s := at[lib.TJSMallocState](state)
	s.Fmalloc_count--
	s.Fmalloc_size -= lib.Tsize_t(headerOf(address).size + headerSize)
	v.memory.release(address)
}

func usable(_ *libc.TLS, address uintptr) lib.Tsize_t {
	if address == 0 {
		return 0
	}
	return lib.Tsize_t(headerOf(address).size)
}

// admits reports whether that many bytes may be allocated.
func (v *VM) admits(s *lib.TJSMallocState, more lib.Tsize_t) bool {
	if v.starved.Load() && v.starved.CompareAndSwap(true, false) {
		return false
	}
	if s.Fmalloc_size > s.Fmalloc_limit || more > s.Fmalloc_limit-s.Fmalloc_size {
		v.exhaust()
		return false
	}
	if lib.Tsize_t(v.memory.idle()) > s.Fmalloc_limit-s.Fmalloc_size-more { // what is free counts where it is held
		v.memory.trim()
	}
	return true
}

func (v *VM) count(s *lib.TJSMallocState, more lib.Tsize_t) {
	s.Fmalloc_size += more
	v.peak = max(v.peak, uint64(s.Fmalloc_size)) //nolint:unconvert // smaller on other platforms
}

// exhaust notes that memory ran out, and has the VM end: code may catch the error that it is told of it.
func (v *VM) exhaust() {
	v.exhausted = true
	v.interrupted.Store(true)
	if v.context != nil {
		atomic.StoreInt32(&v.context.Finterrupt_counter, 0)
	}
}
