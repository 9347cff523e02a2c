package vm

import (
	"math"

	"modernc.org/libc"
	lib "modernc.org/libquickjs"
)

// rejection is one of a promise; the VM holds a reference to both.
type rejection struct {
	reason lib.TJSValue
	order  int
}

// track is told of a promise that is rejected while nobody handles it, and of one that is handled later.
func (v *VM) track(tls *libc.TLS, context uintptr, promise, reason lib.TJSValue, handled int32, _ uintptr) {
	if handled != 0 {
		if r, found := v.rejected[promise]; found {
			v.forget(promise)
			lib.XFreeValue(v.tls, v.ctx, r.reason)
		}
		return
	}
	v.rejection++
	v.rejected[lib.XDupValue(tls, context, promise)] = rejection{lib.XDupValue(tls, context, reason), v.rejection}
}

func (v *VM) forget(promise lib.TJSValue) {
	delete(v.rejected, promise)
	lib.XFreeValue(v.tls, v.ctx, promise)
}

// TakeRejection returns the reason of the first promise that is rejected and that nobody handles. That promise is watched no longer.
func (v *VM) TakeRejection() (reason Value, found bool) {
	var promise lib.TJSValue
	first := rejection{order: math.MaxInt}
	for one, r := range v.rejected {
		if r.order < first.order {
			promise, first, found = one, r, true
		}
	}
	if found {
		v.forget(promise)
	}
	return Value{first.reason}, found
}

// Drain executes what promises have queued, most jobs of it at most. more reports whether that was not all. The error is of the first
// one that failed, while the others are executed all the same, or says that the VM was interrupted.
func (v *VM) Drain(most int) (more bool, err error) {
	context := v.tls.Alloc(sizeOfSize)
	defer v.tls.Free(sizeOfSize)
	for range most {
		v.under++
		ran := lib.XJS_ExecutePendingJob(v.tls, v.rt, context)
		v.under--
		if ran == 0 {
			return false, err
		}
		if ran < 0 {
			if failed := v.thrown(); err == nil {
				err = failed
			}
		}
		if v.interrupted.Load() {
			if err == nil { // a promise took what was thrown
				err = errInterrupted
			}
			return false, err
		}
	}
	return true, err
}
