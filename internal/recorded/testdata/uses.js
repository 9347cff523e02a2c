// What jobs do, a job in each paragraph. TestWhatIsAcceptedIsTheSame executes those that the embedded engine accepts in Node as well.

fn(state => state);

fn(s => ({ ...s, data: s.data.l.map(n => n * 2) }));

fn(s => { s.data.l.push(3); return s; });

fn(() => undefined);

fn(() => null);

fn(() => 0);

fn(() => 'text');

fn(s => ({ ...s, data: undefined }));

fn(async s => ({ ...s, data: await Promise.all(s.data.l.map(async n => n + 1)) }));

alterState(s => { s.data = { n: s.data.l.length }; return s; });

fn($.data);

fn(s => s.data)

fnIf($.data.l.length > 1, fn(s => ({ ...s, many: true })));

fnIf(s => s.data.z, fn(s => ({ ...s, many: true })));

fnIf(0, fn(s => ({ ...s, never: true })));

fnIf(true, s => ({ ...s, plain: true }));

fnIf([], fn(s => ({ ...s, list: true })));

fnIf({}, fn(s => ({ ...s, object: true })));

fnIf('', fn(s => ({ ...s, empty: true })));

each('$.data.o[*]', fn(s => ({ ...s, seen: [...(s.seen ?? []), s.data.n] })));

each('data.o[*]', fn(s => ({ ...s, seen: [...(s.seen ?? []), s.index] })));

each('$.data.o', fn(s => ({ ...s, seen: s.data })));

each('$.data.nothing[*]', fn(s => ({ ...s, seen: true })));

each('$.data.o[*].t', fn(s => ({ ...s, text: (s.text ?? '') + s.data })));

each('$.data.deep.er.x[*].y', fn(s => ({ ...s, ys: [...(s.ys ?? []), s.data] })));

each('$.data.deep.*', fn(s => ({ ...s, inner: s.data })));

each("$['data']['l'][1]", fn(s => ({ ...s, second: s.data })));

each('$..y', fn(s => ({ ...s, ys: [...(s.ys ?? []), s.data] })));

each('$.data.l[-1:]', fn(s => ({ ...s, last: s.data })));

each('$.data.o[?(@.n>1)]', fn(s => ({ ...s, filtered: s.data })));

each($.data.o, fn(s => ({ ...s, seen: [...(s.seen ?? []), s.data.t] })));

each($.data['l'], fn(s => ({ ...s, sum: (s.sum ?? 0) + s.data })));

each(s => s.data.l, async s => ({ ...s, sum: (s.sum ?? 0) + s.data }));

each([7, 8], fn(s => ({ ...s, sum: (s.sum ?? 0) + s.data * s.index })));

each({}, fn(s => s));

each(() => 5, fn(s => s));

each($.data.s, fn(s => s));

each(dataPath('o[*]'), fn(s => ({ ...s, n: s.data.n })));

each('$.data.o[*]', each('$.extra[*]', fn(s => ({ ...s, pairs: [...(s.pairs ?? []), s.data] }))));

each('$.data.l[*]', fn(() => undefined));

each('$.data.l[*]', fn(s => s.data));

each($.extra, fn(s => { console.log(s.index, s.data); return s; }));

map($.data.l, n => n + 1);

map([1, 2, 3], d => d + 1);

map('$.data.o[*]', (item, index, s) => ({ ...item, index, extra: s.extra[index] }));

map('$.data.o[*].n', async n => n * 10);

map('$..n', n => n);

map(s => s.data.l, n => n);

map('$.data.l[*]', fn(s => s));

as('k', fn(s => ({ ...s, data: { was: s.data.l } })));

as('k', fn(s => ({ ...s, data: 1, more: 2 })));

as($.data.s, fn(s => ({ ...s, data: 1 })));

as('data', fn(() => ({ data: 5 })));

as('k', fn(() => undefined));

combine(fn(s => ({ ...s, a: 1 })), fn(async s => ({ ...s, b: s.a })), fn(s => ({ ...s, c: s.b })));

combine();

combine(fn(() => undefined), fn(s => s));

fn(s => execute(fn(s => ({ ...s, a: 1 })), s => ({ ...s, b: s.a }))(s));

fn(execute());

assert($.data.l.length === 2, 'two');

assert($.data.z, 'no z');

assert(false);

assert('$.data.z', 'is a text');

assert(s => s.data.l[0], () => 'message');

log('a', $.data.l, { x: $.data.s });

log($.data.o.map(o => o.n));

log();

debug($.data);

fn(s => { console.log(s.data); console.warn('w'); console.error({ e: 1 }); return s; });

fn(s => ({ ...s, data: dataValue('o[0].t')(s) }));

fn(s => ({ ...s, data: dataValue('$.s')(s) }));

fn(s => ({ ...s, data: dataValue('nothing.here')(s) }));

fn(s => ({ ...s, data: dataValue('l')(s) }));

fn(s => ({ ...s, data: dataValue('l[*]')(s) }));

fn(s => ({ ...s, data: dataValue('..n')(s) }));

fn(s => ({ ...s, data: [sourceValue('$.extra[1]')(s), source('$.data.o[*].n')(s)] }));

fn(s => ({ ...s, data: source('$')(s).length }));

fn(s => ({ ...s, data: lastReferenceValue('r')(s) }));

fn(s => ({ ...s, data: [referencePath('r'), dataPath('a.b'), dataPath('$.a'), referencePath('[1].x')] }));

fn(s => ({ ...s, data: fields(field('a', 1), field('b', dataValue('s')(s)), ['c', undefined]) }));

fn(s => composeNextState(s, { r: 2 }));

fn(({ references, ...s }) => composeNextState(s, 5));

each('$.data.l[*]', fn(s => ({ ...s, at: [...(s.at ?? []), index()(s)] })));

join('$.data.o[*]', '$.data.s', 'text');

fn(s => ({ ...s, data: join('$.data.o[*]', '$.data.s', 'text')(s) }));

fn(s => ({ ...s, data: merge('$.data.o[*]', fields(field('x', dataValue('s'))))(s) }));

group($.data.o, 't');

group('$.data.o[*]', 't');

fn(s => ({ ...s, data: humanProper('some_text-here') }));

fn(s => ({ ...s, data: scrubEmojis('a 😀 b ©') }));

fn(s => ({ ...s, data: chunk(s.data.l, 1) }));

fn(s => ({ ...s, data: splitKeys(s.data, ['l']) }));

fn(s => ({ ...s, data: [toArray(1), toArray([1]), arrayToString([1, 2], '-')] }));

fn(s => ({ ...s, data: jsonValue(s.data, '$.l[0]') }));

fn(s => ({ ...s, data: asData('$.data.l', s) }));

parseCsv('a,b\n1,2\n3,4');

parseCsv('a;b\n1;2', { delimiter: ';', chunkSize: 1 }, (s, rows) => ({ ...s, rows }));

validate({ type: 'object', required: ['nope'] }, 'data');

cursor('2 days ago', { format: () => 'fixed' });

cursor(5, { key: 'page' });

fn(s => ({ ...s, data: _.uniq([1, 1, 2]) }));

fn(s => ({ ...s, data: dateFns.format(new Date(0), 'yyyy') }));

fn(s => ({ ...s, data: util.encode('abc') }));

fn(s => ({ ...s, id: typeof util }));

import { fn as run, each as over } from '@openfn/language-common';
over('$.data.l[*]', run(s => ({ ...s, sum: (s.sum ?? 0) + s.data })));

import * as common from '@openfn/language-common';
common.fn(s => s);

const add = n => s => ({ ...s, n: (s.n ?? 0) + n });
fn(add(1)); fn(add(2));

const list = [1, 2, 3];
fn(s => ({ ...s, data: list.map(String).join('-') }));

function helper(s) { return { ...s, helped: true }; }
fn(helper);

const map = (l, f) => l.map(f);
fn(s => ({ ...s, data: map(s.data.l, n => -n) }));

fn(s => ({ ...s, a: 1 })).then(s => ({ ...s, b: 2 }));

fn(() => { throw new Error('no'); }).catch((e, s) => ({ ...s, caught: e.message }));

fn(() => { throw new Error('no'); });

fn(() => { throw { code: 5 }; });

fn(s => s.data.nothing.here);

fn(s => { try { JSON.parse('{'); } catch (e) { return { ...s, data: e.message }; } });

fn(s => { try { null.x; } catch ({ message }) { return { ...s, data: message }; } });

fn(s => Promise.reject(new TypeError('x')).catch(e => ({ ...s, data: String(e) })));

fn(s => ({ ...s, data: Object.entries(s.data).map(([k, v]) => k + typeof v) }));

fn(s => ({ ...s, data: structuredClone(s.data) }));

fn(s => ({ ...s, data: JSON.parse(JSON.stringify(s.data)) }));

fn(s => ({ ...s, data: [..."ä😀x"].length }));

fn(s => ({ ...s, data: Object.assign({}, 'ab') }));

fn(s => ({ ...s, data: 'a-b_c d'.replace(/[-_ ](\w)/g, (_, c) => c.toUpperCase()) }));

fn(s => ({ ...s, data: '2024-03-01'.match(/(?<y>\d+)-(?<m>\d+)/).groups.m }));

fn(s => ({ ...s, data: 'x1y2'.replace(/(?<=x)\d/, '#') }));

fn(s => ({ ...s, data: [3, 1, 2].toSorted().concat([1, [2]].flat()) }));

fn(s => ({ ...s, data: [1, 2, 3].at(-1) + [1, 2].findLast(n => n < 2) }));

fn(s => ({ ...s, data: new Date('2024-03-01T10:00:00Z').toISOString() }));

fn(s => ({ ...s, data: new Date(2024, 0, 31, 12).getTime() }));

fn(s => ({ ...s, data: [Date.parse('2024-03-01'), Date.parse('March 7, 2024 10:00 UTC'), Date.parse('7 March 2024'), Date.parse('2024/03/01'), Date.parse('nope')] }));

fn(s => ({ ...s, data: new Date(0).toString() }));

fn(s => ({ ...s, data: '' + new Date(0) }));

fn(s => ({ ...s, data: new Date(0).toUTCString() + new Date(0).toDateString() }));

fn(s => ({ ...s, data: (1234.5).toLocaleString() }));

fn(s => ({ ...s, data: new Intl.NumberFormat('de').format(1234.5) }));

fn(s => ({ ...s, data: ['b', 'a', 'ä'].sort((a, b) => a.localeCompare(b)) }));

fn(s => ({ ...s, data: ['b', 'a', 'C', 10, 9].sort() }));

fn(s => ({ ...s, data: [(0.1 + 0.2).toFixed(2), (1e21).toString(), (255).toString(16), (0.000001).toPrecision(2), 5e-324] }));

fn(s => ({ ...s, data: [parseInt('12px'), Number(''), Number('0x1f'), Math.round(-0.5), 2 ** 53, 7 % -3] }));

fn(s => ({ ...s, data: [encodeURIComponent('a b&ä'), decodeURIComponent('%C3%A4'), escape('ä')] }));

fn(s => ({ ...s, data: Buffer.from('héllo').toString('base64') }));

fn(s => ({ ...s, data: new URL('/a?b=1#c', 'https://example.org/x').href }));

fn(s => ({ ...s, data: new URL('https://EXAMPLE.org:443/a b/../c?q=ä').href }));

fn(s => ({ ...s, data: [...new URLSearchParams('a=1&b=x+y')].flat() }));

fn(s => ({ ...s, data: btoa('abc') + atob('YWJj') }));

fn(s => ({ ...s, data: [new Map([[1, 2]]), new Set([1]), Symbol('x'), () => 1, NaN, -0, new Date(5), /x/] }));

fn(s => ({ ...s, data: s.data.l instanceof Array }));

fn(s => ({ ...s, data: s instanceof Object }));

fn(s => ({ ...s, data: s.constructor === Object }));

fn(s => ({ ...s, data: [Array.isArray(s.data.l), typeof s.data.z, Object.keys(s)] }));

fn(s => ({ ...s, data: Object.prototype.toString.call(s.data.l) }));

Array.prototype.last = function () { return this[this.length - 1]; };
fn(s => ({ ...s, data: s.data.l.last() }));

fn(s => ({ ...s, data: [typeof process, typeof require, typeof fetch, typeof global, typeof globalThis, typeof window] }));

fn(s => ({ ...s, data: [typeof setImmediate, typeof AbortController, typeof Blob, typeof performance, typeof TextEncoder, typeof URL, typeof crypto, typeof WebAssembly] }));

fn(s => ({ ...s, data: this === undefined }));

fn(function (s) { return { ...s, data: typeof this }; });

fn(s => { let t = ''; for (const k in s.data) t += k; return { ...s, data: t }; });

fn(s => { label: for (const a of [1, 2]) for (const b of [1, 2]) { if (b === 2) continue label; s.data.l.push(a * b); } return s; });

fn(s => { class P { #x = 1; get x() { return this.#x; } static y = 2; } return { ...s, data: [new P().x, P.y] }; });

fn(s => { function* g() { yield 1; yield* [2, 3]; } return { ...s, data: [...g()] }; });

fn(async s => { const out = []; for await (const x of [1, Promise.resolve(2)]) out.push(x); return { ...s, data: out }; });

fn(s => new Promise(done => setTimeout(() => done({ ...s, waited: true }), 5)));

fn(async s => { await new Promise(r => setTimeout(r, 1)); return { ...s, a: 1 }; });
fn(s => ({ ...s, b: s.a }));

fn(s => ({ ...s, data: `${s.data.l}-${s.data.o}-${{}}-${null}` }));

fn(s => ({ ...s, data: [[1, 2] + '', [] + {}, 1 + '2', '3' * 2, null + 1, undefined + 1] }));

fn(s => ({ ...s, data: (function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2); })(12) }));

fn(s => ({ ...s, data: f.name + g.length, h: (() => {}).name }));
function f() {}
const g = (a, b = 1, ...c) => a;

fn(s => ({ ...s, data: f.toString() }));
function f( a ) { return a }

fn(s => ({ ...s, data: new Error('x').stack.split('\n').length }));

fn(s => ({ ...s, data: JSON.stringify({ a: [undefined, () => 1, NaN], b: undefined, c: new Date(0), d: 'ä\u2028' }) }));

fn(s => ({ ...s, data: JSON.stringify(s.data, null, 2) }));

fn(s => ({ ...s, data: Object.fromEntries(new Map([['b', 1], ['a', 2], [1, 3]])) }));

fn(s => ({ ...s, data: 'ﬃ İ ß'.toUpperCase() + 'ΑΣ'.toLowerCase() + 'é'.normalize('NFD').length }));

fn(s => ({ ...s, data: 'a,b,,c'.split(',', 3) }));

fn(s => ({ ...s, data: 'abc'.padStart(5, '12') + ' x '.trim() + 'ab'.repeat(2) + 'abc'.at(-1) }));

fn(s => ({ ...s, data: [1, 10, 2].sort((a, b) => b - a) }));

fn(s => ({ ...s, data: Array.from({ length: 3 }, (_, i) => i * i) }));

fn(s => ({ ...s, data: [1, [2, [3, [4]]]].flat(Infinity) }));

fn(s => ({ ...s, errors: undefined, configuration: undefined }));

fn(s => { delete s.data; return s; });

fn(s => ({ ...s, response: 1, configuration: { a: 1 }, kept: s.configuration }));

fn(s => { state.data.l = [9]; return state; });

fn(s => Object.freeze({ ...s, frozen: true }));
fn(s => composeNextState(s, 1));

fn(s => ({ ...s, data: Number.MAX_SAFE_INTEGER + 2 }));

fn(s => ({ ...s, data: 2n ** 64n }));

fn(s => ({ ...s, data: isNaN('x') + [1, 2, 3].includes(NaN) }));

fn(s => ({ ...s, data: new Date(NaN) }));

fn(s => ({ ...s, data: new Intl.DateTimeFormat().resolvedOptions().timeZone }));

fn(s => ({ ...s, data: Math.max(...s.data.l, ...s.extra) }));

fn(s => ({ ...s, data: Symbol.iterator in s.data.l }));

fn(s => ({ ...s, data: s.data.o.reduce((a, { n, t }) => ({ ...a, [t]: n }), {}) }));
