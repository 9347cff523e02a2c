// Jobs that fail in the ways in which jobs do, and some that say what they saw of an error. A line before each names it: with # it comes to
// the same in both engines, with ~ it does but for the words of the message, and with ! it does not.

//# an error
fn(() => { throw new Error('x'); })
//# a string
fn(() => { throw 'x'; })
//# a number
fn(() => { throw 5; })
//# an object
fn(() => { throw { message: 'x', code: 5 }; })
//# null
fn(() => { throw null; })
//# undefined
fn(() => { throw undefined; })
//# a TypeError
fn(() => { throw new TypeError('x'); })
//# a RangeError
fn(() => { throw new RangeError('x'); })
//# a ReferenceError
fn(() => { throw new ReferenceError('x'); })
//# a SyntaxError
fn(() => { throw new SyntaxError('x'); })
//# an EvalError
fn(() => { throw new EvalError('x'); })
//# a URIError
fn(() => { throw new URIError('x'); })
//# an AggregateError
fn(() => { throw new AggregateError([new Error('y')], 'x'); })
//# an error with a cause and a code
fn(() => { throw Object.assign(new Error('x', { cause: 'y' }), { code: 'E' }); })
//# in a function declaration
function helper() { throw new Error('x'); } fn(() => helper())
//# in a named arrow function
const helper = () => { throw new Error('x'); }; fn(() => helper())
//# in a named operation
const helper = () => { throw new Error('x'); }; fn(helper)
//# a TypeError in a named function
function helper(s) { return s.nothing.here; } fn(helper)
//# a ReferenceError in a named function
function helper(s) { return nowhere; } fn(helper)
//# a crash in a named function
function helper(s) { throw Object.assign(new Error('x'), { severity: 'crash', name: 'Mine', extra: [1] }); } fn(helper)
//# JSON.parse in a named function
const parse = text => JSON.parse(text); fn(() => parse('{'))
//# an error with members in a named function
function helper(s) { throw Object.assign(new Error('x'), { code: 'E', list: [1] }); } fn(s => helper(s))
//# an error of its own class in a named function
class Mine extends Error { constructor(m) { super(m); this.name = 'Mine'; this.more = 1; } } function helper() { throw new Mine('x'); } fn(helper)
//# an error of its own class
class Mine extends Error {} fn(() => { throw new Mine('x'); })
//# an error of its own class with a constructor
class Mine extends Error { constructor(m) { super(m); this.name = 'Mine'; } } fn(() => { throw new Mine('x'); })
//# a string in a named function
function helper() { throw 'x'; } fn(helper)
//# in a method
const o = { m() { throw new Error('x'); } }; fn(() => o.m())
//# in a getter
const o = { get m() { throw new Error('x'); } }; fn(() => o.m)
//# in a constructor
class C { constructor() { throw new Error('x'); } } fn(() => new C())
//# in a static method
class C { static m() { throw new TypeError('x'); } } fn(() => C.m())
//# in an async function
const wait = async () => { await null; throw new Error('x'); }; fn(() => wait())
//# in an async arrow function without a name
fn(async () => { await null; throw new Error('x'); })
//# in an async arrow function that a named one waits for
const wait = async f => { await f(); }; fn(() => wait(async () => { await null; throw new Error('x'); }))
//# in a function without a name that a named one calls
const call = f => f(); fn(() => call(() => { throw new Error('x'); }))
//# in a named function that one without a name calls
const bad = () => { throw new TypeError('x'); }; fn(() => [1].map(() => bad()))
//# in a callback of map
fn(() => [1].map(x => x.y.z))
//# in a callback of forEach
fn(s => { [1].forEach(function (x) { throw new Error('x'); }); return s; })
//# in a callback of sort
fn(() => [2, 1].sort(() => { throw new Error('x'); }))
//# in a callback of replace
fn(() => 'a'.replace(/a/, () => { throw new Error('x'); }))
//! in a callback of map that has a this
fn(() => [1].map(function (x) { throw new Error('x'); }, {}))
//! in a reviver
fn(() => JSON.parse('[1]', () => { throw new Error('x'); }))
//# in toJSON
fn(() => JSON.stringify({ toJSON() { throw new Error('x'); } }))
//# in a promise's executor
fn(() => new Promise(() => { throw new Error('x'); }))
//# in then
fn(() => Promise.resolve(1).then(() => { throw new Error('x'); }))
//# in then of an operation
fn(s => s).then(() => { throw new Error('x'); })
//# in catch of an operation
fn(() => { throw new Error('x'); }).catch(() => { throw new TypeError('y'); })
//# rejected with an error
fn(() => Promise.reject(new Error('x')))
//# rejected with a string
fn(() => Promise.reject('x'))
//# rejected by a timer
fn(() => new Promise((_, no) => setTimeout(() => no(new Error('x')), 1)))
//# rejected by a named function in a timer
fn(() => new Promise((_, no) => { const late = () => no(new Error('x')); setTimeout(late, 1); }))
//! Promise.any of none
fn(() => Promise.any([]))
//# Promise.all with one that fails
fn(() => Promise.all([Promise.reject(new TypeError('x'))]))
//# an error made earlier
const early = new Error('x'); fn(() => { throw early; })
//# an error made by a named function and thrown without one
const make = () => new Error('x'); fn(() => { throw make(); })
//# an error that was caught and thrown again
fn(() => { try { null.x; } catch (e) { throw e; } })
//! an error without a stack
fn(() => { const e = new TypeError('x'); delete e.stack; throw e; })
//# an error with a stack of its own
fn(() => { const e = new TypeError('x'); e.stack = 'at helper (vm:module(0):1:1)'; throw e; })
//! an error with a stack that is no text
fn(() => { const e = new Error('x'); e.stack = 5; throw e; })
//# a message of several lines
function helper() { throw new Error('x\ny'); } fn(helper)
//~ a message that is no text
fn(() => { const e = new Error('x'); e.message = { a: 1 }; throw e; })
//# an error without a message
fn(() => { throw new Error(); })
//# a function
fn(() => { throw () => 1; })
//# an array
fn(() => { throw ['x']; })
//# named AdaptorError
fn(() => { const e = new Error('x'); e.name = 'AdaptorError'; throw e; })
//# named AdaptorError, a crash
fn(() => { const e = new Error('x'); e.name = 'AdaptorError'; e.severity = 'crash'; throw e; })
//# named ImportError
fn(() => { const e = new Error('x'); e.name = 'ImportError'; throw e; })
//# severity fail
fn(() => { throw Object.assign(new ReferenceError('x'), { severity: 'fail' }); })
//# a class named like a RangeError
class MyRangeErrorish extends Error {} fn(() => { throw new MyRangeErrorish('x'); })
//# a class named like a ReferenceError
class MyReferenceError extends Error {} fn(() => { throw new MyReferenceError('x'); })
//# at the top
throw new Error('x');
//# at the top in a named function
function helper() { throw new Error('x'); } helper();
//# a TypeError at the top
null.x;
//# a constant at the top
const a = 1; a = 2;
//# in lazy state
fn($.a.b.c)
//# no operation
console.log('x')
//# a second operation that is none
fn(s => s); 'x'.trim()
//# an operation that the adaptor does not have
nowhere(1)
//# assignment to a constant
fn(() => { const a = 1; a = 2; })
//# an invalid length of an array
fn(() => new Array(-1))
//# an invalid length of an array, set
fn(() => { [].length = -1; })
//~ an invalid count
fn(() => 'x'.repeat(-1))
//# digits out of range
fn(() => (1).toFixed(101))
//# a radix out of range
fn(() => (1).toString(1))
//# precision out of range
fn(() => (1).toPrecision(0))
//# an invalid date
fn(() => new Date('x').toISOString())
//# an invalid string length
fn(() => 'x'.repeat(2 ** 30))
//# not a function
fn(s => s.x())
//# not a function, further down
fn(s => s.data.x.y())
//# a method that is not there
fn(s => s.data.list.map(x => x))
//# a method of undefined called
fn(s => s.data.x.map(x => x))
//# a variable that is no function
const f = 1; fn(() => f())
//# a local that is no function
fn(s => { const g = s.data; return g(); })
//# an element that is no function
fn(s => s.data[0]())
//# an element of a variable that is no function
fn(s => { const i = 'k'; return s.data[i](); })
//# the result of a call that is no function
fn(s => (() => 1)()())
//# a literal that is no function
fn(() => 'x'())
//# a number's method that is not there
fn(() => (5).trim())
//# a string's method that is not there
fn(() => 'x'.push(1))
//# this that has no method
class C { m() { return this.n(); } } fn(() => [1].map(() => { return new C().m; }).map(m => m.nothing()))
//# not a constructor
fn(s => new s.x())
//# an arrow function is no constructor
const f = () => 1; fn(() => new f())
//# a class without new
class C {} fn(() => C())
//# undefined read
fn(s => s.x.y)
//# null read
fn(s => { const n = null; return n.y; })
//# an index of undefined
fn(s => s.data.list[0])
//~ a computed member of undefined
fn(s => { const key = 'k'; return s.x[key]; })
//# undefined written
fn(s => { s.x.y = 1; })
//# null written
fn(s => { const n = null; n.y = 1; })
//# an index of undefined written
fn(s => { s.x[0] = 1; })
//~ undefined destructured
fn(s => { const { a } = s.x; })
//~ null destructured
fn(s => { const { a } = null; })
//~ undefined destructured in a parameter
fn(s => (({ a }) => a)(s.x))
//~ several levels destructured
fn(({ data: { a: { b } } }) => b)
//# an array destructured of undefined
fn(s => { const [a] = s.x; })
//~ an array destructured of an object
fn(s => { const [a] = s.data; })
//~ an array destructured of a number
fn(s => { const [a] = 5; })
//# spread of undefined
fn(s => [...s.x])
//# spread of an object
fn(s => [...s.data])
//~ spread of a number in a call
fn(s => Math.max(...5))
//~ spread of undefined in a call
fn(s => Math.max(...s.x))
//# for of undefined
fn(s => { for (const x of s.x) ; })
//# for of an object
fn(s => { for (const x of s.data) ; })
//# for of a member that is an object
fn(s => { const o = { a: {} }; for (const x of o.a) ; })
//# for of a call
fn(s => { const f = () => 1; for (const x of f()) ; })
//~ new Map of a number
fn(() => new Map(5))
//~ new Map of no pairs
fn(() => new Map([1]))
//~ new Set of a number
fn(() => new Set(5))
//~ Promise.all of an object
fn(() => Promise.all({}))
//~ Promise.all of nothing
fn(() => Promise.all())
//# Object.fromEntries of undefined
fn(s => Object.fromEntries(s.x))
//# Object.keys of undefined
fn(s => Object.keys(s.x))
//# Object.keys of null
fn(s => Object.keys(null))
//# Object.entries of undefined
fn(s => Object.entries(s.x))
//# Object.assign to undefined
fn(s => Object.assign(undefined, {}))
//~ Object.defineProperty on a number
fn(s => Object.defineProperty(5, 'a', {}))
//# reduce of nothing
fn(() => [].reduce((a, b) => a))
//# map without a function
fn(() => [1].map(5))
//# map without anything
fn(() => [1].map())
//~ forEach with an object
fn(s => [1].forEach(s.data))
//# filter with a string
fn(() => [1].filter('x'))
//# sort with a number
fn(() => [1, 2].sort(5))
//# not defined
fn(() => nowhere)
//# not defined, called
fn(() => nowhere())
//# not defined, assigned to
fn(() => { nowhere = 1; })
//# not defined, in typeof and after
fn(() => { typeof nowhere; return nowhere.x; })
//# before it is initialised
fn(() => { a; const a = 1; })
//# before it is initialised, in a function
fn(() => { const f = () => a; f(); let a = 1; })
//# a class before it is initialised
fn(() => { new C(); class C {} })
//# a frozen member
fn(() => { Object.freeze({ a: 1 }).a = 2; })
//# a new member of what is frozen
fn(() => { Object.freeze({}).a = 2; })
//~ a frozen array
fn(() => { Object.freeze([1]).push(2); })
//# a deleted member of what is frozen
fn(() => { delete Object.freeze({ a: 1 }).a; })
//# a member with a getter only
fn(() => { ({ get a() { return 1; } }).a = 2; })
//~ a member of a string
fn(() => { 'x'.a = 1; })
//~ a member of a number
fn(() => { (5).a = 1; })
//~ in of a string
fn(() => 'a' in 'b')
//~ in of undefined
fn(s => 'a' in s.x)
//~ instanceof of no function
fn(s => s instanceof s.data)
//~ instanceof of undefined
fn(s => s instanceof s.x)
//# a symbol as text
fn(() => `${Symbol('x')}`)
//# a symbol as a number
fn(() => +Symbol('x'))
//# a symbol added
fn(() => Symbol('x') + '')
//# BigInt and a number
fn(() => 1n + 1)
//~ BigInt of a fraction
fn(() => BigInt(1.5))
//~ BigInt of text
fn(() => BigInt('x'))
//# BigInt divided by zero
fn(() => 1n / 0n)
//# BigInt as JSON
fn(() => JSON.stringify({ a: 1n }))
//# a circle as JSON
fn(() => { const o = {}; o.o = o; return JSON.stringify(o); })
//# a circle of arrays as JSON
fn(() => { const o = { list: [] }; o.list.push({ back: o }); return JSON.stringify(o); })
//# no primitive
fn(() => `${Object.create(null)}`)
//# no primitive, added
fn(() => ({ toString: null, valueOf: null }) + 1)
//# no end
const f = n => f(n + 1) + 1; fn(() => f(0))
//# no end without a name
fn(() => { (function () { return arguments.callee; }); let g; g = { go: () => g.go() + 1 }.go; const h = { f: x => h.f(x) + 1 }; h.f(1); })
//# JSON.parse of nothing
fn(() => JSON.parse(''))
//# JSON.parse of undefined
fn(() => JSON.parse(undefined))
//# JSON.parse of an object
fn(s => JSON.parse(s.data))
//# JSON.parse of an array
fn(() => JSON.parse([1, 'x']))
//# JSON.parse of a word
fn(() => JSON.parse('hello'))
//# JSON.parse of an HTML page
fn(() => JSON.parse('<html><body>404 Not Found</body></html>'))
//# JSON.parse of an open object
fn(() => JSON.parse('{"a": 1'))
//# JSON.parse of an open array
fn(() => JSON.parse('[1, 2'))
//# JSON.parse of an open string
fn(() => JSON.parse('{"a": "b'))
//# JSON.parse with a comma too many
fn(() => JSON.parse('{"a": 1,}'))
//# JSON.parse of an array with a comma too many
fn(() => JSON.parse('[1,]'))
//# JSON.parse with single quotes
fn(() => JSON.parse("{'a': 1}"))
//# JSON.parse of keys without quotes
fn(() => JSON.parse('{a: 1}'))
//# JSON.parse with something behind
fn(() => JSON.parse('{} x'))
//# JSON.parse of a bad number
fn(() => JSON.parse('{"a": 01}'))
//# JSON.parse of a missing value
fn(() => JSON.parse('{"a": }'))
//# JSON.parse of a missing colon
fn(() => JSON.parse('{"a" 1}'))
//# JSON.parse of a missing comma
fn(() => JSON.parse('{"a": 1 "b": 2}'))
//# JSON.parse of a line end in a string
fn(() => JSON.parse('{"a": "b\nc"}'))
//# JSON.parse of a bad escape
fn(() => JSON.parse('"\\x"'))
//# JSON.parse of a bad Unicode escape
fn(() => JSON.parse('"\\u12"'))
//# JSON.parse of NaN
fn(() => JSON.parse('{"a": NaN}'))
//# JSON.parse of a long text
fn(() => JSON.parse('{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", oops, "ccccccccccccccccccccccccccccccccccccccc": 1}'))
//# JSON.parse of text on several lines
fn(() => JSON.parse('{\n  "a": 1,\n  b: 2\n}'))
//~ a bad pattern
fn(() => new RegExp('('))
//~ a bad pattern with brackets
fn(() => new RegExp('['))
//~ nothing to repeat
fn(() => new RegExp('*'))
//~ bad flags
fn(() => new RegExp('a', 'xx'))
//# a bad URI
fn(() => decodeURIComponent('%'))
//# a lone surrogate in a URI
fn(() => encodeURIComponent('\ud800'))
//# matchAll without g
fn(() => 'x'.matchAll(/x/))
//# replaceAll without g
fn(() => 'x'.replaceAll(/x/, ''))
//# normalize of a form that is none
fn(() => 'x'.normalize('y'))
//~ a code point out of range
fn(() => String.fromCodePoint(-1))
//~ includes of a pattern
fn(() => 'x'.includes(/x/))
//# padEnd that is too long
fn(() => 'x'.padEnd(2 ** 31))
//# a generator that runs
fn(() => { const g = (function* () { g.next(); })(); g.next(); })
//~ a proxy that was revoked
fn(() => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy.x; })
//~ a wrong this
fn(() => Map.prototype.get.call({}, 1))
//~ a wrong this of a date
fn(() => Date.prototype.getTime.call({}))
//~ a typed array that is too long
fn(() => new Uint8Array(-1))
//~ Reflect.ownKeys of a number
fn(() => Reflect.ownKeys(1))
//# Symbol with new
fn(() => new Symbol())
//# a derived class without super
class A {} class B extends A { constructor() { } } fn(() => new B())
//~ extends of what is no class
fn(s => { class B extends s.x {} })
//# eval
fn(() => eval('1'))
//# eval that is caught
fn(s => { try { eval('1'); } catch (e) { return { ...s, name: e.name, message: e.message }; } })
//# new Function
fn(() => new Function('1'))
//# import
fn(() => import('fs'))
//# fetch
fn(() => fetch('x'))
//# process
fn(() => process.exit())
//# require
fn(() => require('fs'))
//! what a job sees of an error of the engine
fn(s => { try { s.x.y; } catch (e) { return { ...s, name: e.name, message: e.message, text: String(e), is: e instanceof TypeError }; } })
//! what a job sees of an undeclared name
fn(s => { try { nowhere; } catch (e) { return { ...s, name: e.name, message: e.message }; } })
//# what a job sees of JSON
fn(s => { try { JSON.parse('{'); } catch (e) { return { ...s, name: e.name, message: e.message }; } })
//! what a job sees of a missing method
fn(s => { try { s.x(); } catch (e) { return { ...s, message: e.message }; } })
//! what a job sees of a constant
fn(s => { try { const a = 1; a = 2; } catch (e) { return { ...s, message: e.message }; } })
//! what a job sees of no end
fn(s => { const f = () => f() + 1; try { f(); } catch (e) { return { ...s, name: e.name, message: e.message, is: e instanceof RangeError }; } })
//! what a job sees in a promise's catch
fn(s => Promise.resolve().then(() => s.x.y).catch(e => ({ ...s, message: e.message })))
//! what a catch of an operation sees
fn(s => s.x.y).catch((e, s) => ({ ...s, name: e.name, message: e.message }))
//! an error that is put into the state
fn(s => { try { s.x.y; } catch (e) { return { ...s, e, message: e.message }; } })
//! an error that is logged
fn(s => { try { s.x.y; } catch (e) { console.log(e); console.log(e.message); console.error('failed', e); return s; } })
//# a rejection that nobody handles
fn(s => { Promise.reject(new Error('x')); return s; })
//# a rejection that nobody handles, of a string
fn(s => { Promise.reject('x'); return s; })
//# a rejection that nobody handles, of undefined
fn(s => { Promise.reject(); return s; })
//# a rejection that nobody handles, of an object
fn(s => { Promise.reject({ message: 'x' }); return s; })
//# a rejection that nobody handles, of an object without a message
fn(s => { Promise.reject({ a: 1 }); return s; })
//# a rejection that nobody handles, of a TypeError
fn(s => { Promise.reject(new TypeError('x')); return s; })
//# a rejection that nobody handles, of the engine
fn(async s => { (async () => s.x.y)(); await new Promise(r => setTimeout(r, 5)); return s; })
//# an async function that nobody waits for
fn(s => { [1].forEach(async () => { throw new Error('x'); }); return s; })
//# uncaught in a timer
fn(s => new Promise(() => setTimeout(() => { throw new Error('x'); }, 1)))
//# uncaught in a timer, a string
fn(s => new Promise(() => setTimeout(() => { throw 'x'; }, 1)))
//# uncaught in a timer, null
fn(s => new Promise(() => setTimeout(() => { throw null; }, 1)))
//# uncaught in a timer, a missing method
fn(s => new Promise(() => setTimeout(() => s.x.y(), 1)))
//# a state that is a function
fn(() => () => 1)
//# a state that is undefined in the end
fn(s => { s.x = 1; })
//# console is frozen
fn(s => { console.log = () => {}; return s; })
//# console is frozen, a new method
fn(s => { console.table = () => {}; return s; })
//# console is frozen, deleted
fn(s => { delete console.log; return s; })
//! console is frozen, or is it
fn(s => ({ ...s, frozen: Object.isFrozen(console), keys: Object.keys(console).sort(), type: typeof console.log }))
//# console is the job's own
fn(s => { globalThis.console = { log: () => {} }; console.log('x'); return s; })
//# console is the job's own variable
const console = { log: m => seen.push(m) }; const seen = []; fn(s => { console.log('x'); return { ...s, seen }; })
//# console by name of another
fn(s => { const c = console; c.info('x'); c.debug('d'); return s; })
//# console has no method of that name
fn(s => { console.table([1]); return s; })
//# console has no group
fn(s => { console.group('x'); return s; })
//! other globals are frozen
fn(s => { setTimeout.x = 1; return s; })
//! parseInt is frozen
fn(s => { parseInt.x = 1; return s; })
//# a global of its own
fn(s => { globalThis.mine = 1; return { ...s, mine }; })
//# Buffer without new
fn(s => ({ ...s, b: Buffer.from('x').toString('hex') }))
//# new Buffer
fn(s => new Buffer('x'))
//# a state of the adaptor's error
fn(s => s); each('$.data', fn(s => s))
//# a wrong path
each($.nothing, fn(s => s))
//# an error in an operation in an operation
each([1, 2], fn(s => s.x.y))
//# an error in a named function in an operation in an operation
const bad = s => { throw new Error('x'); }; each([1, 2], fn(s => bad(s)))
//# combine with what is no operation
combine(fn(s => s), 5)
//# what dataValue gets
fn(dataValue('x.y.z'))
//# an assertion
fn(s => s); assert(false, 'no')
//# an operation as a value
fn(s => fn(5)(s))
//# an operation of nothing
fn()
//# an operation of undefined
fn(s => fn(s.nothing)(s))
//# fnIf of nothing
fnIf(true)
//! a state without a prototype
fn(() => Object.create(null))
//# nothing but a prototype is missing
fn(() => { throw new Error('first'); }).catch(() => { throw Object.create(null); })
//! a state whose toJSON throws
fn(() => ({ toJSON() { throw new Error('never'); } }))
//# a function that a member was given
fn(s => { s.f = () => { nowhere; }; return s; }); fn(s => { s.f(); return s; })
//# an operator that is called
fn(() => { (void 0)(); })
//# a number that is constructed
fn(() => { new 5; })
//# a weak map of a number
fn(() => { new WeakMap().set(1, 1); })
//# a constant on the line of its declaration
fn(state => { const c = 1; c = 2; return state; })
//# a getter that throws in a state
fn(() => ({ data: { get bad() { throw new Error('no'); } } })); fn(s => s)
