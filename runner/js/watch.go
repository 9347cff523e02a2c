package js

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libquickjs"
	"modernc.org/quickjs"
)

// watch sees two things in a VM that its wrapper has no API for: promises that
// were rejected and are not handled, and memory that ran out. Neither can be
// told from inside JavaScript, for a job may catch the error that is thrown
// when memory runs out, and an async function's promise never passes through
// code of ours. It also makes an interrupt quicker.
//
// It reaches the engine below the wrapper through fields of the wrapper that are not exported;
// newWatch fails where they are not those of wrapperVersion.
type watch struct {
	tls     *libc.TLS
	context uintptr
	runtime *libquickjs.TJSRuntime
	// countdown is what the engine counts down from 10,000, by one a call or
	// loop, before it looks whether it is interrupted.
	countdown *int32

	// exhausted is set once an allocation failed for lack of memory.
	exhausted bool
	// starved has the next allocation fail.
	starved atomic.Bool
	// peak is the most memory that was allocated, in bytes.
	peak uint64

	rejected  map[libquickjs.TJSValue]rejection // by promise: those rejected and not handled
	rejection int                               // counts rejections

	// The engine holds the hooks as plain addresses, so they must stay
	// reachable from here until close has taken them back.
	hooks           []any
	malloc, realloc uintptr // the engine's own functions
}

// rejection is one of a promise; the watch holds a reference to both.
type rejection struct {
	reason libquickjs.TJSValue
	order  int
}

type (
	allocate   = func(tls *libc.TLS, state uintptr, size libquickjs.Tsize_t) uintptr
	reallocate = func(tls *libc.TLS, state, address uintptr, size libquickjs.Tsize_t) uintptr
)

const (
	wrapper = "modernc.org/quickjs"
	// wrapperVersion is that of go.mod. A program that imports the engine may be linked with a
	// later one, if something else in it asks for that.
	wrapperVersion = "v0.27.0"
)

// wrapperError says that the wrapper is not the one that is known here.
func wrapperError() error {
	linked := "another"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == wrapper {
				linked = cmp.Or(module.Replace, module).Version
			}
		}
	}
	return fmt.Errorf("it needs %[1]s %[2]s, and this program is linked with %[3]s: put into the program's go.mod the line: replace %[1]s => %[1]s %[2]s", wrapper, wrapperVersion, cmp.Or(linked, "a folder in its place"))
}

// inside returns what a VM of the wrapper has below it.
func inside(vm any) (context, runtime uintptr, tls *libc.TLS, err error) {
	outer := reflect.ValueOf(vm)
	inner := field(outer, "runtime")
	context, runtime = address(field(outer, "cContext")), address(field(inner, "cRuntime"))
	if f := field(inner, "tls"); f.IsValid() && f.Type() == reflect.TypeFor[*libc.TLS]() {
		tls = (*libc.TLS)(f.UnsafePointer())
	}
	if context == 0 || runtime == 0 || tls == nil {
		return 0, 0, nil, wrapperError()
	}
	return context, runtime, tls, nil
}

func address(v reflect.Value) uintptr {
	if v.Kind() != reflect.Uintptr {
		return 0
	}
	return uintptr(v.Uint())
}

// field returns a field of what a pointer to a struct points to, the zero Value where there is none.
func field(pointer reflect.Value, name string) reflect.Value {
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() || pointer.Elem().Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return pointer.Elem().FieldByName(name)
}

func newWatch(vm *quickjs.VM) (*watch, error) {
	context, at, tls, err := inside(vm)
	if err != nil {
		return nil, err
	}
	w := &watch{
		tls:     tls,
		context: context,
		runtime: *(**libquickjs.TJSRuntime)(unsafe.Pointer(&at)), //nolint:gosec // memory that is not Go's

		rejected: make(map[libquickjs.TJSValue]rejection),
	}
	w.countdown = &(*(**libquickjs.TJSContext)(unsafe.Pointer(&w.context))).Finterrupt_counter //nolint:gosec // nor is this
	w.watchMemory(vm)
	w.watchPromises(at)
	return w, nil
}

func (w *watch) watchMemory(vm *quickjs.VM) {
	functions := &w.runtime.Fmalloc_ctx.Fmf
	w.malloc, w.realloc = functions.Fjs_malloc, functions.Fjs_realloc
	malloc := *(*allocate)(unsafe.Pointer(&struct{ uintptr }{w.malloc}))     //nolint:gosec // as the engine itself does
	realloc := *(*reallocate)(unsafe.Pointer(&struct{ uintptr }{w.realloc})) //nolint:gosec // as the engine itself does

	note := func(address uintptr, size libquickjs.Tsize_t) uintptr {
		if address == 0 && size != 0 {
			w.exhausted = true
			vm.Interrupt()
			w.hurry()
		}
		w.peak = max(w.peak, w.allocated())
		return address
	}
	functions.Fjs_malloc = w.hook(func(tls *libc.TLS, state uintptr, size libquickjs.Tsize_t) uintptr {
		if w.starves(size) {
			return 0
		}
		return note(malloc(tls, state, size), size)
	})
	functions.Fjs_realloc = w.hook(func(tls *libc.TLS, state, address uintptr, size libquickjs.Tsize_t) uintptr {
		if w.starves(size) {
			return 0
		}
		return note(realloc(tls, state, address, size), size)
	})
}

func (w *watch) watchPromises(runtime uintptr) {
	tracker := func(tls *libc.TLS, context uintptr, promise, reason libquickjs.TJSValue, handled int32, _ uintptr) {
		if handled != 0 {
			w.forget(promise)
			return
		}
		w.rejection++
		w.rejected[libquickjs.XDupValue(tls, context, promise)] = rejection{libquickjs.XDupValue(tls, context, reason), w.rejection}
	}
	libquickjs.XJS_SetHostPromiseRejectionTracker(w.tls, runtime, w.hook(tracker), 0)
}

// hurry has the VM look at its next call or loop whether it is interrupted: where
// a call takes milliseconds, as one that overflows the stack, 10,000 of them are
// too many to wait for. Any goroutine may call it until the VM is closed. The VM
// counts down without locks, so its next write may undo this one: call it
// again while there is need.
func (w *watch) hurry() { atomic.StoreInt32(w.countdown, 0) }

// press is hurry for a VM that must end. One that has not looked since it was last
// pressed is in the middle of a call of its own, such as JSON.stringify, that
// does not look: the next allocation fails, and the call with it. That error can be
// caught, and the interrupt that waits behind it cannot.
func (w *watch) press() {
	if atomic.SwapInt32(w.countdown, 0) == 0 {
		w.starved.Store(true)
	}
}

// starves reports whether an allocation of that size is to fail.
func (w *watch) starves(size libquickjs.Tsize_t) bool {
	return size != 0 && w.starved.Load() && w.starved.CompareAndSwap(true, false)
}

// hook returns a Go function as the engine's code, which was C, calls one.
func (w *watch) hook(f any) uintptr {
	w.hooks = append(w.hooks, f)
	return (*[2]uintptr)(unsafe.Pointer(&w.hooks[len(w.hooks)-1]))[1] //nolint:gosec // the data word of the interface
}

func (w *watch) forget(promise libquickjs.TJSValue) {
	if r, found := w.rejected[promise]; found {
		delete(w.rejected, promise)
		libquickjs.XFreeValue(w.tls, w.context, promise)
		libquickjs.XFreeValue(w.tls, w.context, r.reason)
	}
}

// takeRejection reports whether a promise is rejected and not handled. If so,
// the reason of the first is left in the global of that name, and the promise
// is watched no longer.
func (w *watch) takeRejection(global string) bool {
	var first libquickjs.TJSValue
	found := rejection{order: math.MaxInt}
	for promise, r := range w.rejected {
		if r.order < found.order {
			first, found = promise, r
		}
	}
	if found.order == math.MaxInt {
		return false
	}
	defer w.forget(first)
	name, err := libc.CString(global)
	if err != nil {
		return true
	}
	defer libc.Xfree(w.tls, name)
	this := libquickjs.XJS_GetGlobalObject(w.tls, w.context)
	defer libquickjs.XFreeValue(w.tls, w.context, this)
	reason := libquickjs.XDupValue(w.tls, w.context, found.reason)
	libquickjs.XJS_DefinePropertyValueStr(w.tls, w.context, this, name, reason, libquickjs.MJS_PROP_C_W_E)
	return true
}

// stripSource makes the VM compile to bytecode that lacks the text of functions.
func (w *watch) stripSource() { w.runtime.Fstrip_flags = libquickjs.MJS_STRIP_SOURCE }

// allocated returns how much memory the VM holds, in bytes.
func (w *watch) allocated() uint64 {
	return uint64(w.runtime.Fmalloc_ctx.Fmalloc_state.Fmalloc_size) //nolint:unconvert // smaller on other platforms
}

// close frees what the watch holds and takes its hooks back. The VM is closed
// after it.
func (w *watch) close() {
	for promise := range w.rejected {
		w.forget(promise)
	}
	w.runtime.Fhost_promise_rejection_tracker = 0
	w.runtime.Fmalloc_ctx.Fmf.Fjs_malloc, w.runtime.Fmalloc_ctx.Fmf.Fjs_realloc = w.malloc, w.realloc
	w.hooks = nil
}
