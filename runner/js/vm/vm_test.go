package vm

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newVM(t testing.TB) *VM {
	t.Helper()
	v, err := New()
	require.NoError(t, err)
	t.Cleanup(v.Close)
	return v
}

// What crosses between Go and JavaScript is the same on both sides.
func TestValues(t *testing.T) {
	v := newVM(t)
	for _, tt := range []struct {
		code string
		want any
	}{
		{`undefined`, nil},
		{`null`, nil},
		{`true`, true},
		{`-2147483647`, -math.MaxInt32},
		{`2147483648`, 2147483648.0},
		{`0.5`, 0.5},
		{`NaN > 0 || -Infinity`, math.Inf(-1)},
		{`'a\u0000b'`, "a\x00b"},
		{`'ä' + '€' + '\ud83d\ude00'`, "ä€\U0001F600"},
		{`'\ud83d' + 'x' + '\ude00'`, "\uFFFDx\uFFFD"},
		{`'\ud7ff\ue000'`, "\uD7FF\uE000"},
		{`''`, ""},
		{`'x'.repeat(1e5) + 'y'.repeat(1e5)`, strings.Repeat("x", 1e5) + strings.Repeat("y", 1e5)},
	} {
		got, err := v.Eval(tt.code)
		require.NoError(t, err, tt.code)
		require.Equal(t, tt.want, got, tt.code)
	}
	object, err := v.Eval(`(...all) => all.map(x => typeof x + ' ' + String(x)).join('|')`)
	require.NoError(t, err)
	got, err := v.Call(object.(Value), nil, "", "a\x00\xff\xfe€", math.MaxInt32, object)
	require.NoError(t, err)
	require.Equal(t, "object null|string |string a\x00\uFFFD\uFFFD€|number 2147483647|function (...all) => all.map(x => typeof x + ' ' + String(x)).join('|')", got)
	_, err = v.Call(object.(Value), "first", 1.5)
	require.ErrorContains(t, err, "1.5 of Go's type float64 is no value of JavaScript's")
	v.Free(object.(Value))
	_, err = v.Eval("'\xff' + ")
	require.ErrorContains(t, err, "SyntaxError")
	_, err = v.Eval(`throw { toString() { throw 1; } }`)
	require.EqualError(t, err, "")
	_, err = v.Eval(`throw new RangeError('x'.repeat(1000))`)
	require.EqualError(t, err, "RangeError: "+strings.Repeat("x", 1000))
}

// Functions of Go's and JavaScript's call each other.
func TestFunctions(t *testing.T) {
	v := newVM(t)
	var apply Value
	function := v.Function(func(args []any) (any, error) {
		switch args[0] {
		case "fail":
			return nil, errors.New("no %s \xff" + strings.Repeat("x", 300))
		case "again":
			return v.Call(apply, "two", 1, args[1])
		case "make":
			return v.Eval("({ made: 1 })")
		case "two":
			return args[2], nil
		}
		return len(args), nil
	})
	code, err := v.Compile(`host => (...args) => host(...args)`)
	require.NoError(t, err)
	loaded, err := newVM(t).Load(code[:len(code)/2])
	require.Error(t, err, loaded)
	made, err := v.Load(code)
	require.NoError(t, err)
	called, err := v.Call(made.(Value), function)
	require.NoError(t, err)
	apply = called.(Value)
	for _, tt := range []struct {
		args []any
		want any
	}{
		{[]any{"count", 1, nil}, 3},
		{[]any{"again", "ä"}, "ä"},
		{[]any{"two", 1, "ä\x00"}, "ä\x00"},
	} {
		got, err := v.Call(apply, tt.args...)
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
	}
	object, err := v.Call(apply, "make")
	require.NoError(t, err)
	require.IsType(t, Value{}, object)
	_, err = v.Call(apply, "fail")
	require.ErrorContains(t, err, "TypeError: no %s \uFFFDxxx", "it is told what was said, and no format")
	v.Modules = func(name string) (string, error) {
		if name == "./a" {
			return "export { n } from 'b'; export default 'ä';", nil
		}
		if name == "b" {
			return "export const n = 1;", nil
		}
		return "", errors.New("no module " + name)
	}
	_, err = v.Eval(`import('./a').then(a => { globalThis.got = a.default + a.n; }); import('../b').catch(e => { globalThis.failed = e.message; })`)
	require.NoError(t, err)
	more, err := v.Drain(2)
	require.NoError(t, err)
	require.True(t, more)
	more, err = v.Drain(1000)
	require.NoError(t, err)
	require.False(t, more)
	got, err := v.Eval(`got + failed`)
	require.NoError(t, err)
	require.Equal(t, "ä1no module ../b", got)
}

// Each import is asked for, declared or not, before a module is looked up, loaded or not; a reset forgets who answers.
func TestResolve(t *testing.T) {
	v := newVM(t)
	require.NoError(t, v.Keep())
	var asked []string
	serve := func() {
		v.Modules = func(name string) (string, error) {
			return map[string]string{
				"a": "import { n } from 'b'; import * as b from 'b'; export { n } from 'b'; export const again = () => import('b'), other = () => import('c');",
				"b": "export const n = 1;",
			}[name], nil
		}
		v.Resolve = func(base, name string) error {
			asked = append(asked, base+" "+name)
			if name == "c" {
				return errors.New("not c \xff" + strings.Repeat("x", 300))
			}
			return nil
		}
	}
	serve()
	_, err := v.Eval(`import('a').then(async a => { globalThis.got = (await a.again()).n; await a.other().catch(e => { got = got + e.name + e.message; }); }); 1`)
	require.NoError(t, err)
	_, err = v.Drain(1000)
	require.NoError(t, err)
	require.Equal(t, []string{"<eval> a", "a b", "a b", "a b", "a b", "a c"}, asked)
	got, err := v.Eval(`got`)
	require.NoError(t, err)
	require.Contains(t, got, "1TypeErrornot c \uFFFDxxx")

	require.True(t, v.Reset())
	_, err = v.Eval(`import('b').catch(e => { globalThis.got = e.message; }); 1`)
	require.NoError(t, err)
	_, err = v.Drain(1000)
	require.NoError(t, err)
	got, err = v.Eval(`got`)
	require.NoError(t, err)
	require.Equal(t, "there are no modules", got)
	require.Len(t, asked, 6)

	serve()
	v.Resolve = func(string, string) error { panic("as it is") }
	require.PanicsWithValue(t, "as it is", func() { _, _ = v.Eval("import('a')"); _, _ = v.Drain(1) })
	require.False(t, v.Reset())
}

// What no code of a job can tell: promises that were rejected and are not handled, and memory that ran out.
func TestRejectionsAndMemory(t *testing.T) {
	tests := []struct {
		name, code string
		rejected   int
		exhausted  bool
	}{
		{name: "nothing", code: `1`},
		{name: "a rejected promise", code: `Promise.reject(1)`, rejected: 1},
		{name: "three of them, one handled", code: `for (let i = 1; i < 4; i++) { const p = Promise.reject(i); if (i === 2) p.catch(() => {}); }`, rejected: 2},
		{name: "handled later", code: `var p = Promise.reject(1); Promise.resolve().then(() => p.catch(() => {}))`},
		{name: "an async function", code: `(async () => { await null; throw 1; })()`, rejected: 1},
		{name: "memory", code: `try { const a = []; for (;;) a.push({}); } catch {}`, exhausted: true},
		{name: "memory at once", code: `try { new Array(1e8).fill(1); } catch {}`, exhausted: true},
		{name: "memory in a growing text", code: `try { let s = 'x'; for (;;) s = (s + s).replace('x', 'y'); } catch {}`, exhausted: true},
	}
	v := newVM(t)
	require.NoError(t, v.Keep())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.True(t, v.Reset())
			v.LimitMemory(4 << 20)
			if _, err := v.Eval(tt.code); err != nil {
				require.True(t, tt.exhausted, err)
			}
			_, err := v.Drain(1000)
			require.NoError(t, err)
			require.Len(t, v.rejected, tt.rejected)
			require.Equal(t, tt.exhausted, v.Exhausted())
			require.GreaterOrEqual(t, v.Peak(), v.Allocated())
			require.Less(t, v.Peak(), uint64(5<<20))
			if tt.exhausted {
				require.Greater(t, v.Peak(), uint64(1<<20))
			}
			reason, found := v.TakeRejection()
			require.Equal(t, tt.rejected > 0, found)
			if found {
				require.Equal(t, int32(1), int32Of(reason.v), "the first")
				require.Len(t, v.rejected, tt.rejected-1)
			}
		})
	}
}

// Guards against memory of others that code reads and writes behind the end of a buffer, or that a buffer has in it as it grows.
func TestBuffersEndWhereTheyEnd(t *testing.T) {
	v := newVM(t)
	require.NoError(t, v.Keep())
	v.LimitMemory(16 << 20)
	before := v.Allocated()
	_, err := v.Eval(`const n = 1 << 20, shared = new SharedArrayBuffer(8, { maxByteLength: n }); 1`)
	require.NoError(t, err)
	require.Greater(t, v.Allocated(), before+1<<20, "what it may grow to is there, and counts")
	got, err := v.Eval(`
		const make = {
			shared: () => { shared.grow(n); return shared; },
			resized: () => { const b = new ArrayBuffer(8, { maxByteLength: n }); b.resize(n); return b; },
			'shrunk and grown': () => { const b = new ArrayBuffer(n, { maxByteLength: n }); new Uint8Array(b).fill(1); b.resize(8); b.resize(n); new Uint8Array(b).fill(0, 0, 8); return b; },
			transferred: () => new ArrayBuffer(8).transfer(n),
			'transferred and grown': () => { const b = new ArrayBuffer(8, { maxByteLength: n }).transfer(16); b.resize(n); return b; },
		};
		Object.keys(make).filter(name => { const b = new Uint8Array(make[name]()); return b.length !== n || b.some(x => x !== 0); }).join()`)
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = v.Eval(`new SharedArrayBuffer(8, { maxByteLength: 1 << 25 })`)
	require.Error(t, err)
	require.True(t, v.Exhausted())
}

// Guards against twice the memory that a VM may have: what was small and is free, beside what is large.
func TestWhatIsFreeIsNotHeldBesideTheLimit(t *testing.T) {
	v := newVM(t)
	require.NoError(t, v.Keep())
	for range 3 {
		v.LimitMemory(40 << 20)
		_, err := v.Eval(`{ let a = []; for (let i = 0; i < 2e5; i++) a.push({ i }); a = [a[0], a[1e5]]; globalThis.some = a; } 1`)
		require.NoError(t, err)
		require.Greater(t, v.memory.idle(), uintptr(16<<20))
		got, err := v.Eval(`globalThis.large = new Uint8Array(30 << 20); { let a = []; for (let i = 0; i < 1e4; i++) a.push({ i }); globalThis.more = a; } some[1].i + more[9999].i`)
		require.NoError(t, err)
		require.Equal(t, 109999, got)
		require.Less(t, v.memory.idle(), uintptr(10<<20))
		require.Less(t, len(v.memory.slabs), v.memory.pictured+5)
		require.True(t, v.Reset())
	}
}

// An interrupt ends what is executed, whatever that catches, and also a call of the engine's own that does not look for one.
func TestInterrupt(t *testing.T) {
	v := newVM(t)
	require.NoError(t, v.Keep())
	for _, code := range []string{
		`for (;;) try { for (;;); } catch {} finally { for (;;); }`,
		`const f = () => { for (;;) try { f(); } catch {} }; f()`,
		`(async () => { for (;;) try { for (;;) await null; } catch {} })(); 1`,
		`const a = []; a.length = 2 ** 32 - 1; for (;;) try { JSON.stringify(a); } catch {}`,
		`/(a+)+b/.test('a'.repeat(64))`,
	} {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for again := time.NewTicker(time.Millisecond); ; {
				select {
				case <-again.C:
					v.Interrupt()
				case <-stop:
					again.Stop()
					return
				}
			}
		}()
		_, err := v.Eval(code)
		if err == nil {
			_, err = v.Drain(math.MaxInt)
		}
		close(stop)
		<-stopped
		require.Error(t, err, code)
		require.False(t, v.Exhausted(), code)
		_, err = v.Eval(`for (let i = 0; i < 1e5; i++);`)
		require.Error(t, err, "until it is reset")
		require.True(t, v.Reset())
		got, err := v.Eval(`let n = 0; for (let i = 0; i < 1e5; i++) n++; n`)
		require.NoError(t, err)
		require.Equal(t, 100000, got)
	}
	// Whoever called Go must end too.
	function := v.Function(func([]any) (any, error) { v.Interrupt(); return nil, errors.New("caught") })
	caller, err := v.Eval(`f => { try { f(); } catch {} return 'went on'; }`)
	require.NoError(t, err)
	_, err = v.Call(caller.(Value), function)
	require.Error(t, err)
}

// After what went up through the engine, none of its code runs, and no memory is left behind.
func TestAPanicInGo(t *testing.T) {
	v := newVM(t)
	require.NoError(t, v.Keep())
	function := v.Function(func([]any) (any, error) { panic("as it is") })
	caller, err := v.Eval(`f => { try { [1].map(f); } catch {} finally { return 1; } }`)
	require.NoError(t, err)
	require.PanicsWithValue(t, "as it is", func() { _, _ = v.Call(caller.(Value), function) })
	require.False(t, v.Reset())

	v = newVM(t)
	require.NoError(t, v.Keep())
	function = v.Function(func([]any) (any, error) { runtime.Goexit(); return nil, nil })
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = v.Call(function)
	}()
	<-done
	require.False(t, v.Reset())

	v = newVM(t)
	inner := v.Function(func([]any) (any, error) { panic("inner") })
	outer := v.Function(func([]any) (any, error) {
		defer func() { _ = recover() }()
		return v.Call(inner)
	})
	require.PanicsWithValue(t, "a panic that went up through QuickJS was recovered on its way", func() { _, _ = v.Call(outer) })
}

// hostile is code that leaves as much behind as it can.
var hostile = map[string]string{
	"prototypes":         `Object.prototype.x = 1; Array.prototype.map = null; Object.setPrototypeOf(Array.prototype, null); delete globalThis.Map; String.prototype[Symbol.iterator] = null; Object.freeze(globalThis)`,
	"symbols":            `globalThis[Symbol.for('left')] = Symbol('left'); for (let i = 0; i < 5000; i++) Symbol.for('s' + i); Symbol.prototype.description2 = 1`,
	"names":              `for (let i = 0; i < 20000; i++) globalThis['name' + i] = { ['field' + i]: i }`,
	"names taken back":   `for (let i = 0; i < 20000; i++) { globalThis['name' + i] = 1; delete globalThis['name' + i]; }`,
	"buffers":            `globalThis.b = [new ArrayBuffer(64 << 20), new Uint8Array(1 << 20).fill(7)]; new Uint32Array(b[0]).fill(0x7fffffff)`,
	"weak":               `globalThis.w = new WeakRef({}); globalThis.r = new FinalizationRegistry(() => { globalThis.finalized = 1; }); for (let i = 0; i < 1000; i++) r.register({}, i); globalThis.m = new WeakMap([[{}, 1]])`,
	"promises":           `globalThis.p = new Promise(() => {}); for (let i = 0; i < 500; i++) Promise.reject(i); Promise.resolve().then(() => { for (;;) Promise.reject(2); })`,
	"generators":         `globalThis.g = (function* () { try { for (;;) yield 1; } finally { globalThis.ended = 1; } })(); g.next(); globalThis.a = (async function* () { await null; })(); a.next()`,
	"stack":              `const f = () => { try { f(); } finally { f(); } }; f()`,
	"memory":             `const a = []; for (;;) a.push({ i: a.length, t: 'x'.repeat(a.length % 5000) })`,
	"memory at once":     `const a = [1]; for (;;) a.push(...a)`,
	"memory in a text":   `let s = 'ab'; for (;;) s = s.replaceAll('a', s)`,
	"memory in JSON":     `const a = Array(1e6).fill({ k: 'v'.repeat(50) }); JSON.stringify(a)`,
	"a pattern":          `/(?:a+)+b/.exec('a'.repeat(1 << 20))`,
	"a pattern's memory": `/(?:(a)|(b)|(c))*d/.exec('abc'.repeat(1 << 20))`,
	"garbage":            `for (let i = 0; i < 2e5; i++) { const o = {}; o.o = o; }`,
	"modules":            `import('m').then(m => { globalThis.m = m; throw m; })`,
	"code":               `for (let i = 0; i < 300; i++) (0, eval)('globalThis.f' + i + ' = function () { return ' + i + '; }; class C' + i + ' { #x = 1; static { this.y = new Proxy({}, {}); } }')`,
	"an error":           `Error.stackTraceLimit = 1; Error.prepareStackTrace = () => 'x'; throw Object.assign(new Error('left'), { cause: globalThis })`,
	"shared memory":      `globalThis.s = new SharedArrayBuffer(1 << 20); Atomics.store(new Int32Array(s), 0, 1); try { Atomics.wait(new Int32Array(s), 0, 1, 10); } catch {}`,
	"dates":              `Date.prototype.toString = () => 'x'; globalThis.d = new Date(); globalThis.l = d.toLocaleString()`,
	"numbers":            `globalThis.n = 2n ** 100000n; globalThis.t = String(n).length; Math.random = () => 4; (1.1).toString(3); (0.1).toPrecision(100)`,
	"rope":               `let r = ''; for (let i = 0; i < 1e5; i++) r += 'x' + i; globalThis.r = r; globalThis.len = r.normalize('NFKD').length`,
}

// probe tells what a job can see of its VM.
const probe = `(() => {
	const seen = new Set(), out = [];
	const walk = (o, path) => {
		if (o === null || (typeof o !== 'object' && typeof o !== 'function') || seen.has(o)) return;
		seen.add(o);
		for (const k of Reflect.ownKeys(o)) {
			const d = Reflect.getOwnPropertyDescriptor(o, k);
			out.push(path + '.' + String(k) + ' ' + typeof (d.get ?? d.value) + d.writable + d.enumerable + d.configurable + (typeof d.value === 'number' ? d.value : ''));
			walk(d.get, path + '.get ' + String(k));
			walk(d.value, path + '.' + String(k));
		}
		walk(Reflect.getPrototypeOf(o), path + '.__proto__');
	};
	walk(globalThis, '');
	const thrown = []; try { null.x; } catch (e) { thrown.push(e.message, e.stack); }
	return [...out, ...thrown, [3, 1, 2].map(x => x * 2).sort().join(), JSON.stringify({ a: [1, { b: 'ä' }] }), /(\w)(?<n>\d)/.exec('xa1').groups.n, Symbol.keyFor(Symbol.for('left')),
		new Date(0).toISOString(), [...new Map([[1, 2]])].join(), String(2n ** 70n), Object.keys(globalThis).join()].join('\n');
})()`

// Guards against whatever of one use of a VM that the next could see: all bytes of a VM that was reset are those of the picture, and what a
// job sees of it is what it sees of a new one. Only the state of Math.random differs.
func TestNothingIsLeft(t *testing.T) {
	fresh := newVM(t)
	want, err := fresh.Eval(probe)
	require.NoError(t, err)
	require.Greater(t, len(want.(string)), 50_000)

	v := newVM(t)
	require.NoError(t, v.Keep())
	was := v.bytes()
	allocated, slots := v.Allocated(), v.tls.StackSlots()
	randoms := make(map[uint64]bool)
	for name, code := range hostile {
		v.Modules = func(string) (string, error) { return "export default globalThis.left = 1;", nil }
		v.LimitMemory(96 << 20)
		ended := make(chan struct{})
		timer := time.AfterFunc(15*time.Millisecond, func() { defer close(ended); v.Interrupt() })
		_, _ = v.Eval(code)
		_, _ = v.Drain(1000)
		if !timer.Stop() {
			<-ended
		}
		require.True(t, v.Reset(), name)
		require.False(t, v.Exhausted())
		require.Empty(t, v.rejected)
		require.Equal(t, allocated, v.Allocated(), name)
		require.Equal(t, allocated, v.Peak(), name)
		require.Equal(t, slots, v.tls.StackSlots(), name)
		require.Empty(t, v.memory.blocks)
		require.False(t, randoms[v.context.Frandom_state], name)
		randoms[v.context.Frandom_state] = true
		require.True(t, bytes.Equal(was, v.bytes()), name)
		got, err := v.Eval(probe)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		require.True(t, v.Reset())
	}
}

// bytes are those of the VM's memory, without the state of Math.random.
func (v *VM) bytes() []byte {
	random := v.context.Frandom_state
	defer func() { v.context.Frandom_state = random }()
	v.context.Frandom_state = 0
	var all []byte
	for _, s := range v.memory.slabs {
		all = append(all, bytesAt(s.base, s.next-s.base)...)
	}
	return all
}
