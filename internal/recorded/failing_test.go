package recorded

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/openfn"
)

var (
	failingJobs = flag.Int("failing", 16, "how many generated jobs that fail are executed in both engines")
	failingSeed = flag.Int64("failing-seed", time.Now().UnixNano(), "which ones")
)

// What goes wrong, as statements with a state.
var mistakes = []string{
	`throw new Error('boom');`, `throw 'text';`, `throw { message: 'said', code: 7 };`, `throw null;`, `throw undefined;`, `throw 5;`, `throw true;`, `throw '';`, `throw [1, 2];`,
	`throw new TypeError('typed');`, `throw Object.assign(new Error('coded'), { code: 'E1', details: { a: [1] } });`, `throw Object.assign(new Error('crashed'), { severity: 'crash', name: 'Mine' });`,
	`class Own extends Error { constructor(m) { super(m); this.name = 'Own'; } } throw new Own('own');`, `class Plain extends Error {} throw new Plain('plain');`,
	`throw new AggregateError([new Error('a')], 'several');`, `throw new Error('outer', { cause: new Error('inner') });`, `throw new Error('');`, `throw new Error();`,
	`throw new Date(0);`, `throw { name: 'Named', message: 'an object' };`, `throw new Error('a\nb');`, `throw new Error('é ü ☃');`,
	`state.data.no.way;`, `state.nothing.here = 1;`, `nowhere;`, `nowhere();`, `(1 + state.data.list)();`, `(typeof state)();`, `(!state)();`, `(state.n++)();`, `new (state.data.list[0])();`, `new WeakSet().add('x');`, `nowhere = nowhere2;`, `state.data.x();`, `state.data.x.y();`, `state.data.deep.call();`, `(void 0)();`, `null.x;`,
	`new state.data.x();`, `new 5;`, `const c = 1; c = 2;`, `const c = { n: 1 }; c.n = 2; c = 3;`, `let a = later; let later = 1;`, `new Array(-1);`, `[].length = -1;`, `new Array(1.5);`,
	`(function down() { return down(); })();`, `(function down(n) { return 1 + down(n + 1); })(0);`, `[].reduce((x, y) => x);`, `(5).toFixed(101);`, `decodeURIComponent('%');`,
	`JSON.parse('{');`, `JSON.parse('');`, `JSON.parse('nope');`, `JSON.parse(undefined);`, `console.log = 1; throw new Error('it could be set');`, `state = null; state.data;`,
	`const circle = {}; circle.self = circle; throw Object.assign(new Error('with a circle'), { circle });`, `throw Object.assign(new Error('with odd members'), { f() {}, u: undefined, d: new Date(0), n: NaN });`,
	`undefined.length;`, `const { a: { b } } = { a: { b: 1 } }; b.c.d;`, `Symbol() + '';`, `new WeakMap().set(1, 1);`, `state.data.list.nope();`, `state.data.list[9].name;`, `state.data.text.nope();`,
	`[1].forEach();`, `new state.data.list();`, `setTimeout('x', 1);`, `JSON.stringify((() => { const a = { b: [{}] }; a.b[0].c = a; return a; })());`,
	`throw Object.assign(new Error('told'), { name: 'Mine', details: { a: 1 } });`, `class TypeErrorish extends Error {} throw new TypeErrorish('ish');`, `class Late extends Error { constructor(m) { super(m); this.code = 7; } } throw new Late('late');`,
	`({ get x() { throw new Error('getter'); } }).x;`, `switch (nope) { case 1: }`, `state.data.a ??= nope;`,
}

// Where it does, as jobs with the mistake for $.
var failingPlaces = []string{
	`fn(state => { $ return state; })`, `fn(async state => { $ return state; })`, `fn(async state => { await null; $ return state; })`, `fn(state => Promise.resolve().then(() => { $ return state; }))`,
	`fn(state => new Promise((done, refuse) => { try { $ } catch (e) { refuse(e); } done(state); }))`, `each('$.data.list[*]', fn(state => { $ return state; }))`, `fnIf(true, fn(state => { $ return state; }))`,
	`fnIf(() => true, fn(state => { $ return state; }))`, `fnIf(state => { $ return true; }, fn(state => state))`, `each(state => { $ return [1]; }, fn(state => state))`,
	`function helper(state) { $ return state; } fn(helper)`, `const helper = state => { $ return state; }; fn(state => helper(state))`, `fn(state => state).then(state => { $ return state; })`,
	`fn(state => { $ return state; }).then(state => ({ data: 'not here' }))`, `fn(() => { throw new Error('first'); }).catch((error, state) => { $ return state; })`,
	`fn(state => { $ return state; }).catch((error, state) => ({ ...state, caught: true }))`, `fn(state => { [1].forEach(() => { $ }); return state; })`, `fn(state => { [2, 1].sort(() => { $ return 0; }); return state; })`,
	`fn(state => execute(fn(state => { $ return state; }))(state))`, `fn(state => { const o = { m() { $ } }; o.m(); return state; })`, `fn(state => { const o = { get m() { $ } }; return o.m; })`,
	`fn(state => { class A { constructor() { $ } } new A(); return state; })`, `fn(state => { function* g() { $ yield 1; } [...g()]; return state; })`, `fn(state => { try { $ } finally { state.cleaned = 1; } return state; })`,
	`fn(state => { try { $ } catch (e) { throw e; } return state; })`, `fn(state => { console.log('before'); state.data.half = 1; $ return state; })`, `const state = { data: {} }; $ fn(s => s)`,
	`fn(state => Promise.all([1].map(async () => { $ })).then(() => state))`, `state => { $ return state; }`, `each('$.data.list[*]', state => { $ return state; })`, `dataValue('x'); fn(state => { if (state.data) { $ } return state; })`,
	`fn(state => { Promise.resolve().then(() => { $ }); return new Promise(done => setTimeout(() => done(state), 20)); })`, `fn(state => new Promise(done => setTimeout(() => { $ done(state); }, 1)))`,
	`combine(fn(state => state), fn(state => { $ return state; }))`, `fn(state => { state.f = () => { $ }; return state; }); fn(state => { state.f(); return state; })`,
}

// What a step may leave behind. What comes of BigInt is in TestAStateThatIsNotFitForJSON, and of what has no prototype or a toJSON that
// throws, in errors.js.
var oddValues = []string{
	`() => 1`, `Symbol('s')`, `new Date(0)`, `new Date(NaN)`, `new Map([[1, 2]])`, `new Set([1])`, `NaN`, `Infinity`, `-0`, `undefined`, `null`, `/x/g`, `new Error('kept')`, `new Uint8Array(3)`, `[1, , 3]`,
	`[undefined, () => 1]`, `new (class A { constructor() { this.n = 1; } get g() { return 2; } })()`, `{ toJSON: () => 'told' }`, `Object.create({ inherited: 1 })`, `{ [Symbol('k')]: 1, k: 2 }`,
	`Promise.resolve(1)`, `new Proxy({ n: 1 }, {})`, `new String('s')`, `new Number(5)`, `'x'.repeat(1000)`, `'\ud800'`, `{ undefined: undefined, f() {}, n: { d: undefined } }`, `function named() {}`, `class C {}`,
	`(() => { const c = { n: 1 }; c.self = c; return c; })()`, `(() => { const c = []; c.push(c); return c; })()`, `(() => { const shared = { n: 1 }; return [shared, shared]; })()`, `(() => { let d = {}; for (let i = 0; i < 200; i++) d = { d }; return d; })()`,
	`{ get bad() { throw new Error('no'); } }`, `arguments`, `globalThis.nothing`, `new WeakMap()`, `Math`, `JSON`, `true`, `''`, `0`, `'text'`, `[]`,
}

// Where it leaves that.
var oddPlaces = []string{
	`fn(() => ({ data: $ }))`, `fn(() => ({ data: { deep: [$] } }))`, `fn(function () { return $; })`, `fn(() => ({ data: $ })); fn(state => state)`, `fn(() => ({ data: $ })); fn(state => ({ ...state, kind: typeof state.data }))`,
	`fn(state => { state.extra = $; return state; })`, `fn(async () => ({ data: $ }))`, `fn(() => ({ data: [1, 2], kept: $ })); each('$.data[*]', fn(state => state))`, `fn(() => ({ data: $ })); fn(() => { throw new Error('after it'); })`,
}

// failingJob makes one up.
func failingJob(r *rand.Rand) string {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	if r.IntN(4) == 0 {
		return strings.ReplaceAll(strings.ReplaceAll(pick(oddPlaces), "$.", "\x00"), "$", pick(oddValues)) // a path is none of ours
	}
	const data = `fn(() => ({ data: { list: [1, 2], text: 'a', deep: { n: 1 } } })); `
	return data + strings.ReplaceAll(strings.ReplaceAll(pick(failingPlaces), "$.", "\x00"), "$", pick(mistakes))
}

// Jobs that are made up fail alike in both engines: reason, type, message, final state and lines.
func TestGeneratedJobsFailAlike(t *testing.T) {
	runtest.Need(t, "node")
	if testing.Short() {
		t.Skip("nearly all of its time goes into Node")
	}
	t.Logf("with -failing %d -failing-seed %d", *failingJobs, *failingSeed)
	r := rand.New(rand.NewPCG(uint64(*failingSeed), 0))
	e, err := openfn.New(openfn.Config{RepoDir: runtest.Adaptors(t), Spares: 1, Reuse: *failingJobs})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	node, embedded := runtest.New(t, e), runtest.New(t, js.New(js.Config{}))
	same, refused := 0, 0
	for range *failingJobs {
		job := strings.ReplaceAll(failingJob(r), "\x00", "$.")
		got := outcomeOf(embedded, job)
		if strings.Contains(got, "this run needs the OpenFn engine") {
			refused++
			continue
		}
		if want := outcomeOf(node, job); want != got {
			t.Errorf("%s\nnode %s\nhere %s", job, want, got)
			continue
		}
		same++
	}
	t.Logf("%d are the same, %d are refused", same, refused)
}
