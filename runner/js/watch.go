package js

import (
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libquickjs"
	"modernc.org/quickjs"
)

// watch sees two things in a VM that its wrapper has no API for: promises that
// were rejected and are not handled, and memory that ran out. Neither can be
// told from inside JavaScript, for a job may catch the error that is thrown
// when memory runs out, and an async function's promise never passes through
// code of ours.
//
// It reaches the engine below the wrapper through two of the wrapper's fields;
// newWatch fails when they are not what this version has.
type watch struct {
	tls     *libc.TLS
	context uintptr
	runtime *libquickjs.TJSRuntime

	// exhausted is set once an allocation failed for lack of memory.
	exhausted bool
	// peak is the most memory that was allocated, in bytes.
	peak uint64

	rejected []rejection // promises rejected and not handled, oldest first

	// The engine holds the functions as plain addresses, so they must stay
	// reachable from here.
	hooks []any
}

// rejection holds references to both values.
type rejection struct{ promise, reason libquickjs.TJSValue }

type (
	allocate   = func(tls *libc.TLS, state uintptr, size libquickjs.Tsize_t) uintptr
	reallocate = func(tls *libc.TLS, state, address uintptr, size libquickjs.Tsize_t) uintptr
	track      = func(tls *libc.TLS, context uintptr, promise, reason libquickjs.TJSValue, handled int32, opaque uintptr)
)

func newWatch(vm *quickjs.VM) (*watch, error) {
	inner := reflect.ValueOf(vm).Elem()
	context, runtime := inner.FieldByName("cContext"), inner.FieldByName("runtime")
	if context.Kind() != reflect.Uintptr || runtime.Kind() != reflect.Pointer || runtime.IsNil() {
		return nil, fmt.Errorf("this version of modernc.org/quickjs cannot be watched: its VM has changed")
	}
	address, tls := runtime.Elem().FieldByName("cRuntime"), runtime.Elem().FieldByName("tls")
	if address.Kind() != reflect.Uintptr || tls.Type() != reflect.TypeFor[*libc.TLS]() {
		return nil, fmt.Errorf("this version of modernc.org/quickjs cannot be watched: its runtime has changed")
	}
	at := uintptr(address.Uint())
	w := &watch{
		tls:     (*libc.TLS)(tls.UnsafePointer()),
		context: uintptr(context.Uint()),
		runtime: *(**libquickjs.TJSRuntime)(unsafe.Pointer(&at)),
	}
	w.watchMemory(vm)
	w.watchPromises(at)
	return w, nil
}

func (w *watch) watchMemory(vm *quickjs.VM) {
	functions := &w.runtime.Fmalloc_ctx.Fmf
	malloc := *(*allocate)(unsafe.Pointer(&struct{ uintptr }{functions.Fjs_malloc}))
	realloc := *(*reallocate)(unsafe.Pointer(&struct{ uintptr }{functions.Fjs_realloc}))

	note := func(address uintptr, size libquickjs.Tsize_t) uintptr {
		if address == 0 && size != 0 {
			w.exhausted = true
			vm.Interrupt()
		}
		w.peak = max(w.peak, w.allocated())
		return address
	}
	functions.Fjs_malloc = w.hook(func(tls *libc.TLS, state uintptr, size libquickjs.Tsize_t) uintptr {
		return note(malloc(tls, state, size), size)
	})
	functions.Fjs_realloc = w.hook(func(tls *libc.TLS, state, address uintptr, size libquickjs.Tsize_t) uintptr {
		return note(realloc(tls, state, address, size), size)
	})
}

func (w *watch) watchPromises(runtime uintptr) {
	var tracker track = func(tls *libc.TLS, context uintptr, promise, reason libquickjs.TJSValue, handled int32, _ uintptr) {
		if handled == 0 {
			w.rejected = append(w.rejected, rejection{
				libquickjs.XDupValue(tls, context, promise), libquickjs.XDupValue(tls, context, reason),
			})
			return
		}
		i := slices.IndexFunc(w.rejected, func(r rejection) bool { return r.promise == promise })
		if i >= 0 {
			w.forget(i)
		}
	}
	libquickjs.XJS_SetHostPromiseRejectionTracker(w.tls, runtime, w.hook(tracker), 0)
}

// hook returns a Go function as the engine's code, which was C, calls one.
func (w *watch) hook(f any) uintptr {
	w.hooks = append(w.hooks, f)
	return (*[2]uintptr)(unsafe.Pointer(&w.hooks[len(w.hooks)-1]))[1]
}

func (w *watch) forget(i int) {
	libquickjs.XFreeValue(w.tls, w.context, w.rejected[i].promise)
	libquickjs.XFreeValue(w.tls, w.context, w.rejected[i].reason)
	w.rejected = slices.Delete(w.rejected, i, i+1)
}

// handOver reports whether a promise is rejected and not handled. If so, the
// reason of the first is left in the global of that name.
func (w *watch) handOver(name string) bool {
	if len(w.rejected) == 0 {
		return false
	}
	cName, err := libc.CString(name)
	if err != nil {
		return true
	}
	defer libc.Xfree(w.tls, cName)
	global := libquickjs.XJS_GetGlobalObject(w.tls, w.context)
	defer libquickjs.XFreeValue(w.tls, w.context, global)
	reason := libquickjs.XDupValue(w.tls, w.context, w.rejected[0].reason)
	libquickjs.XJS_DefinePropertyValueStr(w.tls, w.context, global, cName, reason, libquickjs.MJS_PROP_C_W_E)
	return true
}

// stripSource makes the VM compile to bytecode that lacks the text of functions.
func (w *watch) stripSource() { w.runtime.Fstrip_flags = libquickjs.MJS_STRIP_SOURCE }

// allocated returns how much memory the VM holds, in bytes.
func (w *watch) allocated() uint64 { return uint64(w.runtime.Fmalloc_ctx.Fmalloc_state.Fmalloc_size) }

// close frees what the watch holds; the VM cannot be closed before.
func (w *watch) close() {
	for len(w.rejected) > 0 {
		w.forget(len(w.rejected) - 1)
	}
}
