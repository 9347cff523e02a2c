// proof.js makes up uses of operations, executes them, and says what each came to, one line of text for each. Where two
// implementations of the operations are the same, so are the lines. It is one function, for Node and for QuickJS.
(async (common, names, seed, count) => {
  'use strict'; // as the code of jobs is
  // ---- Chance, the same in every JavaScript (xorshift)
  let chance = seed | 1;
  const below = n => {
    chance ^= chance << 13;
    chance ^= chance >>> 17;
    chance ^= chance << 5;
    return (chance >>> 8) % n;
  };
  const one = list => list[below(list.length)];
  const many = (most, make) => Array.from({ length: below(most + 1) }, () => make());

  // ---- What is written down of a value
  const thrown = []; // by the callbacks of the case
  function show(value, above = []) {
    if (typeof value === 'string') return JSON.stringify(value);
    if (typeof value === 'function') return 'function';
    if (typeof value === 'bigint') return value + 'n';
    if (Object.is(value, -0)) return '-0';
    if (value === null || typeof value !== 'object') return String(value);
    if (above.includes(value)) return '^' + above.indexOf(value);
    if (above.length > 12) return '…';
    const kind = Object.prototype.toString.call(value).slice(8, -1);
    if (kind === 'Error') return failure(value);
    if (kind === 'Date') return 'Date(' + value.getTime() + ')';
    if (kind === 'RegExp') return String(value);
    const inside = [...above, value];
    if (kind === 'Array') {
      return '[' + Array.from(value, (item, i) => (i in value ? show(item, inside) : 'hole')).join() + ']';
    }
    const parent = Object.getPrototypeOf(value);
    const plain = parent === null || Object.getPrototypeOf(parent) === null;
    return (kind === 'Object' ? '' : kind) + (plain || kind !== 'Object' ? '' : '~' + show(parent, inside)) +
      '{' + Object.keys(value).map(key => JSON.stringify(key) + ':' + show(value[key], inside)).join() + '}';
  }

  // The words of the language's own errors are its own.
  function failure(error) {
    if (thrown.includes(error)) return 'what the callback threw, ' + error.name + ': ' + error.message;
    const ours = error.name === 'Error' || /^(dataSource) /.test(error.message);
    return error.constructor.name + (ours ? ': ' + error.message : '');
  }
  const showThrown = error => (Object.prototype.toString.call(error) === '[object Error]' ? failure(error) : 'not an error: ' + show(error));

  // ---- Values
  const keys = ['a', 'b', 'c', 'data', 'list', 'index', 'references', 'x_1', '*', '0', 'length', 'then', '__proto__', 'constructor'];
  const texts = ['', 'a', 'b', 'list', 'ä😀', '1', '__proto__', '$', 'then'];
  function plain(depth) {
    switch (below(depth > 0 ? 10 : 6)) {
      case 0: return one([null, true, false]);
      case 1: return one([0, 1, -1, 2.5, 1e21, -0]);
      case 2: case 3: return one(texts);
      case 4: return below(9);
      case 5: return below(8) ? 'v' + below(50) : undefined;
      case 6: case 7: return many(4, () => plain(depth - 1));
      default: {
        const object = {};
        for (const key of many(4, () => one(keys))) {
          if (key === 'then' && below(6)) continue;
          Object.defineProperty(object, key, { value: plain(depth - 1), writable: true, enumerable: true, configurable: true });
        }
        return object;
      }
    }
  }
  const full = depth => (depth === 0 ? plain(0) : below(2)
    ? Array.from({ length: 1 + below(3) }, () => full(depth - 1))
    : { [one(keys)]: full(depth - 1), [one(keys)]: full(depth - 1), a: plain(1) });
  const odd = () => one([
    () => new Date(below(1e6)), () => /x/g, () => new Map([[1, 2]]), () => Symbol.iterator, () => Object.create({ inherited: 1 }),
    () => [1, , 3], () => ({ pipe: 1, a: () => 2 }), () => ({ get a() { return 5; } }), () => NaN, () => 10n,
    () => new Uint8Array(2), () => Object.create(null, { a: { value: 1, enumerable: true } }), () => new (class Thing { a = () => 7; })(),
    () => ({ constructor: { name: 'RegExp' }, f: () => 1 }), () => ({ constructor: null, f: () => 1 }), () => ({ then: done => done({ b: 1 }) }),
  ])();
  function state() {
    if (below(40) === 0) return one([undefined, null, 0, 'text', [1, 2], 5, true]);
    const made = { configuration: {}, data: below(3) ? full(2) : plain(2) };
    if (below(2)) made.references = below(6) ? many(3, () => plain(2)) : plain(1);
    if (below(3) === 0) made.index = below(5);
    for (const key of many(3, () => one(['a', 'b', 'c', 'list']))) made[key] = plain(2);
    return made;
  }

  // ---- The trace: what the callbacks of a case were given
  let trace;
  const note = (what, args) => trace.push(what + '(' + Array.from(args, arg => show(arg)).join() + ')');
  const fail = error => { thrown.push(error); throw error; };

  // value is an argument that may refer to the state.
  function value(depth) {
    switch (below(depth > 0 ? 12 : 4)) {
      case 0: case 1: return plain(2);
      case 2: return one([true, false, 1, 0, 'a', undefined]);
      case 3: return below(3) ? plain(1) : odd();
      case 4: case 5: { const key = one(keys); return function () { note('ref', arguments); return arguments[0].data[key]; }; }
      case 6: { const made = value(depth - 1); return state => (note('give', [state]), made); }
      case 7: return s => { note('fails', [s]); return fail(new Error('no value')); };
      case 8: return many(3, () => value(depth - 1));
      case 9: return { [one(keys)]: value(depth - 1), [one(texts)]: value(depth - 1) };
      case 10: return async s => s;
      default: return s => s?.[one(['data', 'index', 'a'])];
    }
  }

  // QuickJS takes nothing out of a text that is spread; what the callbacks do is not what is looked at.
  const spread = value => (typeof value === 'string' ? Object(value) : value);

  // operation is what another operation is given to run.
  function operation(depth) {
    if (depth > 0 && below(3) === 0) return use(depth - 1);
    const text = one(texts);
    const kind = below(16);
    return {
      text: 'callback' + kind,
      make: () => [
        s => s, s => ({ ...spread(s), n: (s?.n ?? 0) + 1 }), s => ({ ...spread(s), data: text }), s => { s.seen = text; return s; }, () => undefined,
        async s => ({ ...spread(s), waited: true }), async s => { await null; s.late = 1; return s; }, () => fail(new Error('callback ' + text)),
        async () => fail(new Error('later ' + text)), () => { throw text; }, s => s.data.missing.more, s => [s?.index, s?.data], () => 5,
        s => ({ ...spread(s), then: undefined, data: { was: s?.data } }), s => ({ then: done => done({ ...spread(s), thenable: 1 }) }), undefined,
      ].map((f, i) => f && function (...args) { note('cb' + i, args); return f(...args); })[kind],
    };
  }

  // ---- Paths, as far as they are built in
  const word = () => one(['a', 'b', 'c', 'list', 'data', 'x_1', 'length', 'references', 'index', 'constructor', 'then']);
  // parts leads on from a value, most of the time to what is there.
  function parts(value, most) {
    if (below(most + 1) === 0) return '';
    const there = value !== null && typeof value === 'object' ? Object.keys(value).filter(key => /^[A-Za-z_0-9]+$/.test(key)) : [];
    const key = below(5) && there.length ? one(there) : word();
    const written = /^\d/.test(key) ? `[${key}]` : one(['.' + key, '.' + key, `['${key}']`, `["${key}"]`]);
    const [how, next] = below(3) ? [written, value?.[key]] : [one(['.*', '[*]']), value?.[one(there)]];
    return how + parts(next, most - 1);
  }
  function fromState() {
    const key = below(4) ? 'data' : word();
    return one([
      () => '$.' + key + parts(subject?.[key], 4), () => '$.' + key + parts(subject?.[key], 4), () => key + (parts(subject?.[key], 4) || '[*]'),
      () => '$', () => '$[*]' + parts(subject?.[key], 3), () => '$' + parts(subject, 4).replace(/^\.\*/, '[*]'),
    ])();
  }
  const inside = value => {
    const key = value && typeof value === 'object' && below(5) ? Object.keys(value).find(key => /^[A-Za-z_]\w*$/.test(key)) ?? word() : word();
    return key + parts(value?.[key], 3);
  };
  const path = text => { paths.push(text); return text; };
  const paths = [];
  let subject; // the state that the case is about to be given

  // ---- Uses
  const of = (name, ...args) => ({
    text: name + '(' + args.map(arg => arg?.text ?? show(arg)).join() + ')',
    make: () => common[name](...args.map(arg => (arg?.make ? arg.make() : arg))),
  });
  const makers = {
    fn: d => of('fn', operation(d)),
    alterState: d => of('alterState', operation(d)),
    fnIf: d => of('fnIf', value(2), operation(d)),
    combine: d => of('combine', ...many(4, () => operation(d))),
    execute: d => of('execute', ...many(4, () => operation(d))),
    each: d => of('each', source('each'), operation(d), ...many(1, () => plain(1))),
    map: d => of('map', source('map'), operation(d)),
    as: d => of('as', below(2) ? one(['a', 'b', 'data']) : value(1), operation(d)),
    assert: () => of('assert', value(2), ...many(1, () => value(1))),
    log: () => of('log', ...many(3, () => loggable())),
    debug: () => of('debug', ...many(3, () => value(2))),
    dataPath: () => of('dataPath', below(4) ? fromState() : plain(1)),
    referencePath: () => of('referencePath', below(4) ? fromState() : plain(1)),
    source: () => of('source', path('source ' + fromState()).slice(7)),
    sourceValue: () => of('sourceValue', path('sourceValue ' + fromState()).slice(12)),
    dataValue: () => of('dataValue', path('dataValue ' + one(['', '.', '$.']) + inside(subject?.data)).slice(10)),
    lastReferenceValue: () => of('lastReferenceValue', path('lastReferenceValue ' + inside(subject?.references?.[0])).slice(19)),
    field: () => of('field', plain(1), value(1)),
    fields: () => of('fields', ...many(4, () => (below(12) ? [one(keys), value(1)] : plain(1)))),
    index: () => of('index'),
    composeNextState: () => of('composeNextState', state(), plain(2)),
  };
  function source(name) {
    switch (below(8)) {
      case 0: case 1: case 2: return path(name + ' ' + fromState()).slice(name.length + 1);
      case 3: case 4: return many(4, () => plain(2));
      case 5: return s => { note('list', [s]); return s.data; };
      case 6: return () => fail(new Error('no list'));
      default: return one([null, undefined, 0, {}, { a: 1 }, 5, true, async () => [1], () => 'data', [{ then: 1 }], new Set([1, 2])]);
    }
  }
  const loggable = () => one([() => plain(2), () => s => s?.data, () => ({ a: [s => s?.index] }), () => 'text'])();
  const use = depth => makers[one(names)](depth);

  async function settle(call) {
    let ends;
    try {
      const result = call();
      if (result === null || typeof result !== 'object' || typeof result.then !== 'function') return ['gives', result];
      Promise.resolve(result).then(made => { ends = ['promises', made]; }, error => { ends = ['rejects', error]; });
    } catch (error) {
      return ['throws', error];
    }
    for (let turn = 0; !ends && turn < 100; turn++) await null; // some of what is made up never ends
    return ends ?? ['never ends'];
  }

  const lines = [];
  for (let i = 0; i < count; i++) {
    trace = [];
    thrown.length = 0;
    const which = names[i % names.length];
    subject = state();
    const { text, make } = makers[which](2);
    const [how, made] = await settle(make);
    let line = `${text} ${how} ${how === 'gives' || how === 'promises' ? show(made) : showThrown(made)}`;
    for (let round = 0; typeof made === 'function' && round <= (i % 4 === 0 ? 1 : 0); round++) {
      const before = round === 0 ? subject : state();
      const shown = show(before);
      const [ends, result] = await settle(() => made(before));
      line += `\n  on ${shown} ${ends} ${ends === 'gives' || ends === 'promises' ? show(result) : showThrown(result)}` +
        (result === before ? ' (the same)' : '') + (show(before) === shown ? '' : `\n  which leaves ${show(before)}`);
    }
    lines.push(line + trace.map(called => '\n    ' + called).join(''));
  }
  return { lines, paths };
})
