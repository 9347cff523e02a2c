package vm

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"unicode/utf8"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/libquickjs"
)

// Value is one of the engine's that is none of Go's: an object, a function, a symbol. Whoever is given one frees it by [VM.Free], or gives it on.
type Value struct{ v lib.TJSValue }

// Func is a function of Go's that JavaScript calls. Arguments are strings, ints, float64s, bools, nil for null and undefined, or a Value, which is only lent. So
// is what it returns, but for float64s and bools; a Value is given. An error is thrown as a TypeError, of which 255 bytes are told.
type Func func(args []any) (any, error)

var (
	fileName       = []byte("<eval>\x00")
	textFormat     = []byte("%s\x00")
	hostName       = []byte("host\x00")
	errInterrupted = errors.New("InternalError: interrupted")
)

const sizeOfSize = int(unsafe.Sizeof(lib.Tsize_t(0)))

func pointer[T any](first *T) uintptr { return uintptr(unsafe.Pointer(first)) }

// Function returns a function that calls one of Go's.
func (v *VM) Function(f Func) Value {
	v.functions = append(v.functions, f)
	return Value{lib.XJS_NewCFunction2(v.tls, v.ctx, v.caller, pointer(&hostName[0]), 0, lib.EJS_CFUNC_generic_magic, int32(len(v.functions)-1))}
}

// Free gives up a Value.
func (v *VM) Free(value Value) { lib.XFreeValue(v.tls, v.ctx, value.v) }

// Eval evaluates a script.
func (v *VM) Eval(text string) (any, error) {
	return v.run(func() lib.TJSValue { return v.eval(text, pointer(&fileName[0]), lib.MJS_EVAL_TYPE_GLOBAL) })
}

func (v *VM) eval(text string, name uintptr, flags int32) lib.TJSValue {
	var pins runtime.Pinner
	defer pins.Unpin()
	text = validUTF8(text)
	return lib.XJS_Eval(v.tls, v.ctx, pinned(&pins, text+"\x00"), lib.Tsize_t(len(text)), name, flags)
}

// Compile returns the bytecode of a script, without the text of its functions. Only the same version of the engine may read it.
func (v *VM) Compile(text string) ([]byte, error) {
	lib.XJS_SetStripInfo(v.tls, v.rt, lib.MJS_STRIP_SOURCE)
	compiled, err := v.run(func() lib.TJSValue {
		return v.eval(text, pointer(&fileName[0]), lib.MJS_EVAL_TYPE_GLOBAL|lib.MJS_EVAL_FLAG_COMPILE_ONLY)
	})
	if err != nil {
		return nil, err
	}
	function, _ := compiled.(Value)
	defer v.Free(function)
	size := v.tls.Alloc(sizeOfSize)
	defer v.tls.Free(sizeOfSize)
	code := lib.XJS_WriteObject(v.tls, v.ctx, size, function.v, lib.MJS_WRITE_OBJ_BYTECODE)
	if code == 0 {
		return nil, v.thrown()
	}
	defer lib.Xjs_free(v.tls, v.ctx, code)
	return bytes.Clone(bytesAt(code, uintptr(*at[lib.Tsize_t](size)))), nil
}

// Load evaluates the bytecode of a script, which is believed to be some.
func (v *VM) Load(bytecode []byte) (any, error) {
	return v.run(func() lib.TJSValue {
		var pins runtime.Pinner
		defer pins.Unpin()
		function := lib.XJS_ReadObject(v.tls, v.ctx, pinned(&pins, unsafe.String(unsafe.SliceData(bytecode), len(bytecode))), lib.Tsize_t(len(bytecode)), lib.MJS_READ_OBJ_BYTECODE)
		if tagOf(function) == lib.EJS_TAG_EXCEPTION {
			return function
		}
		return lib.XJS_EvalFunction(v.tls, v.ctx, function)
	})
}

// Call calls a function with null for this. Arguments are as those that a [Func] returns; a Value is lent.
func (v *VM) Call(function Value, args ...any) (any, error) {
	return v.run(func() (answer lib.TJSValue) {
		size := int(unsafe.Sizeof(null)) * max(len(args), 1)
		first := v.tls.Alloc(size)
		defer v.tls.Free(size)
		given := unsafe.Slice(at[lib.TJSValue](first), len(args))
		failed := false
		for i, arg := range args {
			given[i] = v.value(arg)
			if tagOf(given[i]) == lib.EJS_TAG_EXCEPTION {
				answer, failed = given[i], true
			}
		}
		if !failed {
			answer = lib.XJS_Call(v.tls, v.ctx, function.v, null, int32(len(args)), first)
		}
		for i, arg := range args {
			if _, lent := arg.(Value); !lent {
				lib.XFreeValue(v.tls, v.ctx, given[i])
			}
		}
		return answer
	})
}

// run has the engine execute something, and takes its answer over.
func (v *VM) run(f func() lib.TJSValue) (any, error) {
	v.under++
	answer := f()
	v.under--
	if tagOf(answer) == lib.EJS_TAG_EXCEPTION {
		return nil, v.thrown()
	}
	read, err := v.read(answer)
	if _, given := read.(Value); !given {
		lib.XFreeValue(v.tls, v.ctx, answer)
	}
	return read, err
}

// called answers a call of JavaScript's. What panics in f, or ends its goroutine, goes up through the engine, which runs no code after that.
func (v *VM) called(_ *libc.TLS, _ uintptr, _ lib.TJSValue, count int32, first uintptr, which int32) lib.TJSValue {
	args := make([]any, count)
	for i, arg := range unsafe.Slice(at[lib.TJSValue](first), count) {
		var err error
		if args[i], err = v.read(arg); err != nil {
			return v.throw(err.Error())
		}
	}
	var answer any
	if err := v.lend(func() (err error) { answer, err = v.functions[which](args); return err }); err != nil {
		return v.throw(err.Error())
	}
	if v.interrupted.Load() { // whoever called must end too, whatever f made of it
		return v.end()
	}
	return v.value(answer)
}

// lend has Go's code called by the engine, and does not return to it if the engine was left in the middle of something meanwhile.
func (v *VM) lend(f func() error) error {
	under := v.under
	err := f()
	if v.under != under {
		panic("a panic that went up through QuickJS was recovered on its way")
	}
	return err
}

// end throws what no code can catch.
func (v *VM) end() lib.TJSValue {
	thrown := v.throw("interrupted")
	lib.XJS_SetUncatchableException(v.tls, v.ctx, 1)
	return thrown
}

func (v *VM) throw(message string) lib.TJSValue {
	var pins runtime.Pinner
	defer pins.Unpin()
	room := v.tls.Alloc(16)
	defer v.tls.Free(16)
	return lib.XJS_ThrowTypeError(v.tls, v.ctx, pointer(&textFormat[0]), libc.VaList(room, pinned(&pins, validUTF8(message)+"\x00")))
}

// thrown takes what was thrown, as an error with its text.
func (v *VM) thrown() error {
	exception := lib.XJS_GetException(v.tls, v.ctx)
	v.under++ // to make a text of it may be to call a function
	text, ok := v.text(exception)
	v.under--
	lib.XFreeValue(v.tls, v.ctx, exception)
	if !ok { // it cannot be told
		lib.XFreeValue(v.tls, v.ctx, lib.XJS_GetException(v.tls, v.ctx))
	}
	return errors.New(text)
}

// moduleName is what a module imports another by: names are not looked up in any way.
func (v *VM) moduleName(tls *libc.TLS, context, base, name, _ uintptr) uintptr {
	if v.Resolve != nil {
		if err := v.lend(func() error { return v.Resolve(libc.GoString(base), libc.GoString(name)) }); err != nil {
			v.throw(err.Error())
			return 0
		}
	}
	return lib.Xjs_strdup(tls, context, name)
}

// module returns the module of a name.
func (v *VM) module(_ *libc.TLS, _, name, _ uintptr) uintptr {
	var text string
	err := v.lend(func() (err error) {
		if v.Modules == nil {
			return errors.New("there are no modules")
		}
		text, err = v.Modules(libc.GoString(name))
		return err
	})
	if err != nil {
		v.throw(err.Error())
		return 0
	}
	compiled := v.eval(text, name, lib.MJS_EVAL_TYPE_MODULE|lib.MJS_EVAL_FLAG_COMPILE_ONLY)
	if tagOf(compiled) == lib.EJS_TAG_EXCEPTION {
		return 0
	}
	lib.XFreeValue(v.tls, v.ctx, compiled) // the context holds it
	return addressOf(compiled)
}

// value makes a value of one of Go's.
func (v *VM) value(of any) lib.TJSValue {
	switch of := of.(type) {
	case nil:
		return null
	case Value:
		return of.v
	case int:
		if int64(of) == int64(int32(of)) {
			return lib.XNewInt32(v.tls, v.ctx, int32(of))
		}
	case string:
		var pins runtime.Pinner
		defer pins.Unpin()
		of = validUTF8(of)
		return lib.XJS_NewStringLen(v.tls, v.ctx, pinned(&pins, of), lib.Tsize_t(len(of)))
	}
	return v.throw(fmt.Sprintf("%v of Go's type %T is no value of JavaScript's", of, of))
}

// read returns what a value is in Go, itself if it is none of Go's. It does not take the value over.
func (v *VM) read(value lib.TJSValue) (any, error) {
	switch tagOf(value) {
	case lib.EJS_TAG_STRING, lib.EJS_TAG_STRING_ROPE:
		text, ok := v.text(value)
		if !ok {
			return nil, v.thrown()
		}
		return text, nil
	case lib.EJS_TAG_INT:
		return int(int32Of(value)), nil
	case lib.EJS_TAG_BOOL:
		return int32Of(value) != 0, nil
	case lib.EJS_TAG_FLOAT64:
		return float64Of(value), nil
	case lib.EJS_TAG_NULL, lib.EJS_TAG_UNDEFINED:
		return nil, nil
	}
	return Value{value}, nil
}

// text returns a value's text. What it cannot be made of for want of memory, or since a function throws, is not ok: then that was thrown.
func (v *VM) text(of lib.TJSValue) (text string, ok bool) {
	size := v.tls.Alloc(sizeOfSize)
	defer v.tls.Free(sizeOfSize)
	first := lib.XJS_ToCStringLen2(v.tls, v.ctx, size, of, 0)
	if first == 0 {
		return "", false
	}
	text = wellFormed(bytesAt(first, uintptr(*at[lib.Tsize_t](size))))
	lib.XJS_FreeCString(v.tls, v.ctx, first)
	return text, true
}

// pinned returns the address of a text that stays where it is until it is unpinned.
func pinned(pins *runtime.Pinner, text string) uintptr {
	first := unsafe.StringData(text)
	if first == nil {
		return 0
	}
	pins.Pin(first)
	return pointer(first)
}

// wellFormed returns a copy of what the engine made of a text, with U+FFFD for each half of a surrogate pair, of which it makes three bytes.
func wellFormed(text []byte) string {
	own := bytes.Clone(text)
	for begin := 0; ; begin++ {
		next := bytes.IndexByte(own[begin:], 0xed)
		if next < 0 {
			return unsafe.String(unsafe.SliceData(own), len(own))
		}
		begin += next
		if begin+2 < len(own) && own[begin+1] >= 0xa0 {
			copy(own[begin:], "\uFFFD")
		}
	}
}

// validUTF8 returns a text with U+FFFD for each byte that is none of UTF-8, of which the engine would make something else.
func validUTF8(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}
