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

fn(s => ({ ...s, data: [new Date(2024, 1, 30).toISOString(), new Date('2024-02-30').getTime(), new Date('2024-13-01').getTime(), new Date('2024-1-5').getTime(), new Date('2024-01-05 10:00').getTime(), new Date('2024-01-05T10:00').getTime(), new Date('Jan 5, 2024').getTime(), new Date('5 Jan 2024 10:00 GMT+2').getTime(), new Date('05/01/2024').getTime(), new Date('20240105').getTime(), new Date('2024').getTime(), new Date('2024-06').getTime(), new Date('Tue Mar 01 2022 01:02:03 GMT+0100 (CET)').getTime(), new Date(' 2024-01-05 ').getTime(), new Date('2024-01-05T10:00:00.123456Z').getTime(), new Date('2024-01-05T24:00:00Z').getTime(), new Date('+010000-01-01T00:00:00Z').getTime(), new Date('12:00').getTime(), new Date('2024-01-05T10:00:00+0200').getTime(), new Date('1/2/99').getTime(), new Date('2024.01.05').getTime(), new Date('January 5').getTime(), new Date('5.1.2024').getTime(), new Date('2024-01-05Z').getTime(), new Date('2024-W01').getTime(), new Date('Thu, 01 Jan 1970 00:00:00 GMT').getTime(), new Date('1970-01-01 00:00:00 +0530').getTime(), new Date('10:00 2024-01-05').getTime(), new Date('2024-01-05T1:00').getTime(), new Date('2024-01-05 10:00 PM').getTime(), new Date('2024-01-05T10:00:00 Z').getTime(), new Date('').getTime(), new Date('0').getTime(), new Date('32').getTime(), new Date('50').getTime(), new Date('1.5').getTime(), new Date('5').getTime(), new Date(null).getTime(), new Date(undefined).getTime(), new Date(true).getTime(), new Date([2024, 1, 2]).getTime(), new Date('2024', '0').getTime()] }));

fn(s => ({ ...s, data: [1e21 + '', 1e-7 + '', 123456789012345680000 + '', (0.1).toFixed(20), (1.005).toFixed(2), (1e21).toFixed(2), (25).toString(36), (0.5).toString(2), (-7.5).toString(8), (1234.5678).toExponential(2), (1234.5678).toPrecision(6), 0.1 + 0.2, 100 / 3, 5e-324, 1.7976931348623157e308, -1e-7, 4.35 * 100, 1.1 + 2.2, (1e-10).toString(), (123.456).toString(3), 0xff, 0b11, 0o17, 1_000] }));

fn(s => ({ ...s, data: ['10', '0x10', ' 12 ', '1e3', '', 'abc', '1,5', '٣', '12px', '-0', 'Infinity', '1_000', '0b1', '.5', '5.', '+5', '--5', '\n7\t', '1e', 'null'].map(x => [Number(x), parseInt(x), parseFloat(x)]) }));

fn(s => ({ ...s, data: ['a1b22c333'.split(/\d+/), 'a1b2'.split(/(\d)/), 'abc'.split(''), 'aXbX'.replace(/x/gi, m => m + m), 'a.b*c'.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'aaa'.lastIndexOf('a'), 'x'.localeCompare] }));

fn(s => ({ ...s, data: [...'a1b2'.matchAll(/([a-z])(\d)/g)].map(m => [m[0], m[1], m.index]) }));

fn(s => ({ ...s, data: [/\p{L}+/u.exec('äöü x')[0], /\bfoo\b/.test('a foo b'), /^[\w.+-]+@[\w-]+\.[\w.]+$/.test('a.b@c.de'), /(a)|(b)/.exec('b'), /(?:)/.source, /a\/b/.source, new RegExp('/').source, /x/gimsuy.flags, 'aBc'.replace(/b/i, x => x.toUpperCase()), /\u{1F600}/u.test('😀'), /[^\x00-\x7F]/.test('ä'), /(?<!a)b/.exec('cb').index, 'a\nb'.match(/^b$/m).index, 'x'.replace('x', '$$'), 'abc'.replace(/(b)/, "[$1$&$`$']"), 'abc'.replace(/(?<n>b)/, '<$<n>>')] }));

fn(s => ({ ...s, data: [/[[a-z]&&[aeiou]]/.test('e'), /(?=a)*/.test('') ] }));

fn(s => { const re = /a/g; const out = []; while (re.exec('aaa')) out.push(re.lastIndex); return { ...s, data: out }; });

fn(s => ({ ...s, data: ['é' === 'é', 'é'.normalize() === 'é', 'ñ'.normalize('NFD').length, 'Ⅷ'.toLowerCase(), 'ŉ'.toUpperCase(), 'ǰ'.toUpperCase(), 'I'.toLowerCase(), 'ΑΣ ΑΣΑ'.toLowerCase(), '😀'.length, [...'👨‍👩‍👧'].length, '\u{1F600}'.codePointAt(0), String.fromCodePoint(0x1f600), '😀'.charCodeAt(1), '\ud83d', 'ß'.toUpperCase(), 'a'.padEnd(3, 'xy'), ' \u00a0\ufeffx\u2003'.trim(), 'x'.concat(1, null), 'abc'.substr(-2, 1), 'abc'.substring(2, 0), 'abc'.slice(-2), 'abc'.search(/c/), 'a-b'.split('-', 1), 'A' < 'a', 'Z' < 'a', '10' < '9', '😀' < '\uffff'] }));

fn(s => ({ ...s, data: [[3, 1, 2].sort(), ['b', undefined, 'a', , 'c'].sort(), [5, 25, 100, 1].sort(), [true, false].sort(), [[2], [10], [1]].sort(), [null, undefined, 'm'].sort(), ['B', 'a', 'C'].sort((a, b) => a.toLowerCase() < b.toLowerCase() ? -1 : 1), Array.from({ length: 30 }, (_, i) => ({ k: i % 3, i })).sort((a, b) => a.k - b.k).map(x => x.i), [3, 2, 1].sort((a, b) => a > b), [1, 2, 3, 4].sort(() => 0)] }));

fn(s => ({ ...s, data: [[1, 2, 3].copyWithin(0, 1), [1, 2, 3].fill(0, 1), [1, , 3].map(x => x), [, 1].indexOf(undefined), [NaN].includes(NaN), [NaN].indexOf(NaN), [1, 2, 3].splice(1, 1), [[1, 2], [3]].flatMap(x => x), [1, 2, 3].reduceRight((a, b) => a + '-' + b), Array(3), Array(3).join('-'), [null, undefined, 1].join(), [1, 2].entries().next(), Array.of(7), Array.from('ab', x => x + x), [3, 4].keys().next(), [1, 2, 3].with(1, 9), [1, 2, 3].toSpliced(0, 1), [1, 2, 3].findLastIndex(x => x < 3), 'abc'.at(-1), [1, [2, [3]]].toString(), [].concat([1], [[2]]), [1, 2, 3].lastIndexOf(3, -5)] }));

fn(s => ({ ...s, data: { ints: Object.keys({ b: 1, 2: 1, a: 1, 1: 1, '-1': 1, '01': 1 }), own: Object.entries('ab'), assign: Object.assign({}, null, [7], { a: 1 }), from: Object.fromEntries([['a', 1]]), is: Object.is(-0, 0), sealed: Object.isFrozen(Object.freeze({})), has: Object.hasOwn({ a: 1 }, 'a'), spread: { ...[1, 2], ...null }, rest: (({ a, ...r }) => r)({ a: 1, b: 2 }), getter: { get x() { return 5; } }, computed: { ['a' + 1]: 1 }, proto: { toString: 1 }, nullish: null ?? 'd', chain: s?.data?.nothing?.[0]?.x, opt: s.nothing?.() } }));

fn(s => ({ ...s, data: JSON.stringify([{ a: 1, b: [1, { c: undefined }], d: () => 1, e: Symbol('x'), f: NaN, g: -0, h: new Date(0), i: /x/, j: new Map([[1, 2]]), k: 'a"b\\\u0001\u2028\ud800', l: Object(1), m: [undefined, () => 1] }], null, 1) }));

fn(s => ({ ...s, data: [JSON.stringify({ a: 1, b: 2 }, ['b']), JSON.stringify({ a: [1, { b: 2 }] }, (k, v) => typeof v === 'number' ? v + 1 : v), JSON.stringify('\u007f€'), JSON.stringify({}, null, '--'), JSON.stringify([], null, 2), JSON.stringify({ a: [] }, null, 2), JSON.stringify(undefined), JSON.stringify(null), JSON.parse('[1,2,{"a":null}]', (k, v) => v === null ? undefined : v), JSON.parse(' "x" '), JSON.parse('1E2'), JSON.parse('{"__proto__":1}'), JSON.parse('{"a":1,"a":2}'), JSON.parse('"\\u00e4"')] }));

fn(s => ({ ...s, data: [encodeURI('ä b?c=d&e#f'), encodeURIComponent("!'()*~-_."), decodeURI('%41%2F'), unescape('%u0041%E4'), escape('a b+ä€')] }));

fn(s => { const log = []; setTimeout(() => log.push('t0'), 0); Promise.resolve().then(() => log.push('p')); log.push('sync'); return new Promise(r => setTimeout(() => r({ ...s, data: log }), 5)); });

fn(async s => { const log = []; const a = async n => { log.push(n + 1); await null; log.push(n + 2); }; await Promise.all([a('x'), a('y')]); const r = await Promise.race([new Promise(r => setTimeout(r, 20, 'slow')), new Promise(r => setTimeout(r, 1, 'fast'))]); return { ...s, data: [log, r, await Promise.any([Promise.reject(1), 2])] }; });

fn(async s => { const log = []; (async () => { log.push(1); await 0; log.push(3); })(); log.push(2); await 0; log.push(4); await new Promise(r => r()); log.push(5); return { ...s, data: log }; });

fn(s => { const id = setInterval(() => { s.n = (s.n ?? 0) + 1; }, 1); return new Promise(r => setTimeout(() => { clearInterval(id); r({ ...s, ran: s.n > 0, n: 1 }); }, 20)); });

fn(s => ({ ...s, data: [typeof setTimeout(() => {}, 0), String(typeof clearTimeout)] }));

fn(s => { console.log('a %s b', 1, { x: [1, { y: new Date(0) }] }, [undefined, null], 'z'); console.log(true); console.log(NaN, -0, Infinity); console.log(new Map([[1, 2]]), new Set([1])); console.log(Symbol('q')); console.log('multi\nline'); console.log([1, 2, [3]]); console.log({}); console.log([]); console.log(''); console.info('i'); console.debug('d'); return s; });

fn(s => { console.log(new Error('boom')); return s; });

fn(s => { console.log(s); return s; });

fn(s => { console.log(); console.log(undefined); console.log(null); console.log(null, 1); return s; });

fn(s => { console.log({ a: { b: { c: { d: { e: 1 } } } } }); console.log('x'.repeat(50)); console.log(Object.create(null)); class A { x = 1 } console.log(new A()); return s; });

fn(s => ({ ...s, data: new Map([['a', 1]]) }));

fn(s => ({ ...s, data: { d: new Date(86400000), u: undefined, f() {}, n: NaN, i: -Infinity, nested: { u: undefined, l: [undefined, () => 1] } } }));

fn(s => ({ ...s, data: new Uint8Array([1, 2, 3]) }));

fn(s => { s.self = s.data; return s; });

fn(s => { const a = {}; a.a = a; return { ...s, data: a }; });

fn(s => { s.data.parent = s; return s; });

fn(s => [1, 2, 3]);

fn(s => true);

fn(s => NaN);

fn(s => '');

fn(s => new Date(0));

fn(s => () => 1);

fn(s => Symbol('x'));

fn(s => ({}));

fn(s => ({ data: null }));

fn(s => ({ ...s, data: { toJSON() { return 'custom'; } } }));

fn(s => ({ ...s, configuration: { secret: 1 }, references: [1] }));

fn(s => { throw new TypeError('own'); });

fn(s => { throw 'text'; });

fn(s => { throw null; });

fn(s => nowhere);

fn(s => s.data.l());

fn(s => { const c = 1; c = 2; return s; });

fn(s => { undeclared = 5; return s; });

fn(s => { null.x = 1; });

fn(s => { Object.freeze(s.data).l = 1; return s; });

fn(s => [].reduce((a, b) => a));

fn(s => 'x'.repeat(-1));

fn(s => new Array(-1));

fn(s => (1).toFixed(101));

fn(s => decodeURIComponent('%'));

fn(s => JSON.parse('{'));

fn(s => { let x = y; let y = 1; });

fn(s => structuredClone(s));

fn(s => new Intl.NumberFormat());

fn(s => Symbol() + '');

fn(s => { for (const x of 5); });

fn(s => { const [a] = null; });

fn(s => { const { a } = undefined; });

fn(s => new (class { constructor() { this.x; } })().y.z);

fn(s => ({ ...s, data: (() => { let t = 0; for (let i = 0; i < 1e5; i++) t += i; return t; })() }));

fn(s => ({ ...s, data: [Math.round(2.5), Math.round(-2.5), Math.max(), Math.min(), Math.sign(-3), Math.trunc(-4.7), Math.cbrt(27), Math.hypot(3, 4), Math.log10(1000), Math.fround(5.5), Math.clz32(1), Math.imul(3, 4), Math.atan2(1, 1), Math.exp(1), Math.sin(1), Math.cos(2), Math.tan(3), Math.pow(2, 0.5), Math.log(10), Math.log1p(1e-10), Math.sinh(1), Math.expm1(1), 2 ** -1, 10 ** 21, Math.asinh(1), Math.tanh(0.5)] }));

fn(s => ({ ...s, data: [1 / 0, -1 / 0, 0 / 0, 5 % 0, -5 % 3, 5.5 % 2, 1 << 31, 1 << 32, -1 >>> 0, -1 >> 1, ~5, 5 & 3, 5 | 3, 5 ^ 3, !!'' , +[], +{}, +[5], +'', +null, +undefined, +true, [] == false, null == undefined, null == 0, '1' == 1, NaN != NaN, typeof null, typeof NaN, void 0] }));

fn(s => ({ ...s, data: [`a${1}b`, String.raw`a\n${2}`, ((t, ...v) => t.raw.join('|') + v)`x${1}y\t`, 'a\
b', '\x41\u0041\u{41}', "it's", 'tab\t'] }));

fn(s => { switch (s.data.s) { case 'text': s.hit = 1; case 'other': s.fell = 1; break; default: s.def = 1; } return s; });

fn(s => { let i = 0; do { i++; if (i === 2) continue; if (i > 4) break; } while (true); return { ...s, data: i }; });

fn(s => { var x = 1; { var x = 2; } let y = 1; { let y = 2; } return { ...s, data: [x, y, typeof hoisted, (function () { return typeof inner; var inner; })()] }; var hoisted; });

fn(s => { try { return { ...s, a: 1 }; } finally { s.f = 1; } });

fn(s => { const w = new WeakMap(); const k = {}; w.set(k, 1); return { ...s, data: [w.get(k), w.has({}), new Set([1, 1, 2]).size, [...new Map([[1, 'a'], [1, 'b']])]] }; });

fn(s => { const p = new Proxy({}, { get: (_, k) => 'got ' + String(k) }); return { ...s, data: [p.x, Reflect.ownKeys({ a: 1, [Symbol.iterator]: 1 }).length] }; });

fn(s => { const g = (function* () { const x = yield 1; yield x * 2; })(); return { ...s, data: [g.next().value, g.next(5).value, g.next().done] }; });

fn(s => { class A { static n = 0; #p = 1; constructor() { A.n++; } get p() { return this.#p; } static { A.m = 5; } } class B extends A { get p() { return super.p + 1; } } return { ...s, data: [new B().p, A.n, A.m, B.name, new B() + ''] }; });

fn(s => ({ ...s, data: [((a, b = a + 1, ...c) => [a, b, c])(1, undefined, 3, 4), (({ a: { b = 5 } = {} }) => b)({}), (([x, , y = 3]) => [x, y])([1, 2])] }));

fn(s => ({ ...s, data: Object.getOwnPropertyNames(class { static x() {} }).concat(Object.getOwnPropertyNames(function f(a) {})) }));

fn(s => ({ ...s, data: [(function () { return arguments.length; })(1, 2), (() => {}).name, (function foo() {}).name, ({ bar() {} }).bar.name, (class Q {}).name, ({ baz: () => {} }).baz.name, parseInt.name, parseInt.length, (function () {}).bind().name] }));

fn(s => ({ ...s, data: [String(Symbol('x')), String(null), String([1, [2]]), String({}), [] + '', String(new Map()), String(async () => {}), String(new Error('m')), String(-0), `${[null]}`, String(Object(5))] }));

fn(s => ({ ...s, data: new Date(2024, 5, 15, 12, 30).toJSON() + new Date(0).getDay() + new Date(1e12).getTimezoneOffset() + Date.UTC(2024, 0) + typeof Date.now() + Date(0).slice(0, 3).length }));

fn(s => { const d = new Date(0); d.setMonth(14); d.setDate(-1); d.setHours(25, 61, 61, 1001); d.setFullYear(2023, 1, 30); return { ...s, data: [d, d.valueOf(), d.getYear?.(), d + 1, d - 1, `${d}`, d.toUTCString(), d.toGMTString?.(), d.toDateString(), new Date(8.64e15 + 1).getTime(), new Date(2e3, 0).getFullYear(), new Date(99, 0).getFullYear()] }; });

fn(s => ({ ...s, data: [isFinite('5'), Number.isInteger(5.0), Number.isSafeInteger(2 ** 53), Number.EPSILON, Number.parseFloat('1.5abc'), (5).toString(2).padStart(8, '0'), Number('12e-1'), +'1e1000', 0.1 * 3, 9007199254740993, 1e16 + 1, 123456789 * 987654321, 0.1 ** 10, 1 / 3] }));

export default [s => ({ ...s, one: 1 }), async s => ({ ...s, two: s.one + 1 })];

export const execute = (...ops) => s => ops.reduce((a, o) => a.then(o), Promise.resolve(s));
fn(s => ({ ...s, custom: true }));

const wait = ms => new Promise(r => setTimeout(r, ms));
fn(async s => { await wait(1); return { ...s, waited: 1 }; });

let counter = 0;
fn(s => { counter++; return s; });
each($.data.l, fn(s => { counter += s.data; return s; }));
fn(s => ({ ...s, counter }));

await Promise.resolve();
fn(s => ({ ...s, top: true }));

const x = await Promise.resolve(5);
fn(s => ({ ...s, x }));

console.log('top level');
fn(s => s);

fn(s => { console.log(globalThis.state === s, typeof state); return s; });

state.data.added = 1;
fn(s => s);

fn(state => { state.data.l.length = 0; return state; });
fn(state => ({ ...state, n: state.data.l.length }));

fn(s => { s.data.x = s.data.o; s.data.o[0].n = 9; return s; });

fnIf($.data.l[0] === 1, each($.data.o, fn(s => ({ ...s, t: (s.t ?? '') + s.data.t }))));

each($.data.o, fnIf(s => s.data.n > 1, fn(s => ({ ...s, hit: s.data.t }))));

each($.data.o, async s => { await null; return { ...s, order: [...(s.order ?? []), s.index] }; });

each('$.data.o[*]', each($.data.nothing ?? [], fn(s => s)));

each('$.data.o[*]', s => s.index === 1 ? undefined : s);

each('$.data.l[*]', fn(s => { throw new Error('in each ' + s.index); }));

each('$.data.l[*]', combine(fn(s => ({ ...s, a: (s.a ?? 0) + s.data })), fn(s => ({ ...s, b: s.a * 2 }))));

combine(each($.data.l, fn(s => ({ ...s, sum: (s.sum ?? 0) + s.data }))), fn(s => ({ ...s, done: s.sum })));

fn(s => each('$.data.l[*]', fn(t => ({ ...t, n: (t.n ?? 0) + 1 })))(s));

fn(s => combine(fn(a => ({ ...a, x: 1 })), as('y', fn(a => ({ ...a, data: a.x }))))(s));

fn(s => fields(field('a', dataValue('s')(s)), field('b', sourceValue('$.extra[0]')(s))));

fn(s => ({ ...s, data: [dataValue('deep.er.x[1].y')(s), dataValue('deep.er.x[*].y')(s), dataValue('deep["er"]')(s), dataValue('l.length')(s), dataValue('s.length')(s), dataValue('s[0]')(s), dataValue('z.x')(s), source('$.data.*')(s).length, source('$[*]')(s).length, sourceValue('data.deep.er')(s)] }));

map('$.data.deep.er.x[*]', (x, i) => [i, x.y]);

map($.data.o, async (o, i, s) => ({ ...o, of: s.data.o.length, i }));

map($.data.s, c => c);

map('$.data.s', c => c);

map([], x => x);

as('first', fn(s => composeNextState(s, s.data.l[0])));

assert($.data.l.includes(2), 'has two'); fn(s => ({ ...s, ok: true }));

assert($.data.l, $.data.s);

assert(0, $.data.s);

assert(null, null);

log($.data, 'x', [$.extra], { k: $.data.s });

log('a'); debug('b'); fn(s => s);

log(s => s.data.l, () => 'f', undefined, null, 5);

alterState(async s => ({ ...s, late: 1 }));

alterState(() => {});

fn(async () => { throw new Error('later'); });

fn()

fn(5);

each($.data.l);

combine(5);

as('x');

fnIf(true);

map($.data.l);

field('a', 1);

dataValue('s');

index();

fields(['a', 1]);

fn(s => s), fn(s => ({ ...s, second: 1 }));

if (true) fn(s => ({ ...s, conditional: 1 }));

[1, 2].forEach(n => fn(s => s));

const op = fn(s => ({ ...s, made: 1 }));
op;

const op2 = fn(s => ({ ...s, made: 1 }));
fn(op2);

fn(s => ({ ...s, data: $.data }));

fn(state => ({ ...state, x: state.data.s }))
fn(state => ({ ...state, y: state.x }))

fn(s => ({ ...s, data: [$.data] }));

fnIf($.data.s == 'text' && $.data.l.length, fn(s => ({ ...s, both: 1 })));

fnIf(!$.data.z, fn(s => ({ ...s, no: 1 })));

fn(s => { const { l, ...rest } = s.data; return { ...s, data: rest, count: l.length }; });

fn(s => ({ ...s, data: Object.entries(s.data.deep).map(([k, { x }]) => [k, x?.length]) }));

fn(s => ({ ...s, data: s.data.o.filter(o => o.n > 1).map(({ t }) => t).join() || 'none' }));

fn(s => { s.data.o.forEach((o, i, all) => { o.of = all.length; o.i = i; }); return s; });

fn(s => { const by = {}; for (const { t, n } of s.data.o) (by[t] ??= []).push(n); return { ...s, data: by }; });

fn(s => ({ ...s, data: s.data.o.some(o => o.n === 2) && s.data.o.every(o => o.t) }));

fn(s => ({ ...s, data: [...new Set([...s.data.l, 2, 3])] }));

fn(s => ({ ...s, references: [...(s.references || []), s.data], data: {} }));

fn(s => { const m = new Map(s.data.o.map(o => [o.t, o])); return { ...s, data: m.get('b') }; });

fn(s => { if (!s.data.id) throw new Error(`Missing id in ${JSON.stringify(Object.keys(s.data))}`); return s; });

fn(s => ({ ...s, data: [3, 2, 1].sort((a, b) => a > b) }));

fn(s => ({ ...s, data: s.data.o.sort((a, b) => (a.n > b.n ? 1 : -1)) }));
