// Executes compiled jobs, one a line of the file named as {code}, and prints what each did: a line of JSON.
//
// Operations record that they are made. When they run they call those of their arguments that are functions with the
// state, and record what comes of it: most go on until nothing is a function, as adaptors do, fn does it once.
import { readFileSync } from 'node:fs';
import vm from 'node:vm';

let events;

// shown is a value as JSON can tell it. Functions are called with the state, once or until there are none.
function shown(value, state, once = false, depth = 0) {
  if (value === state) return 'the state';
  if (typeof value === 'function') {
    if (value.fromStub) return 'a ' + value.fromStub;
    if (depth > 5 || (once && depth > 0)) return 'a function';
    try {
      return shown(value(state), state, once, depth + 1);
    } catch (error) {
      return { throws: described(error) };
    }
  }
  if (value === null || typeof value !== 'object') return typeof value === 'string' ? value : String(value);
  if (typeof value.then === 'function') return 'a promise';
  if (depth > 5) return 'deep';
  if (Array.isArray(value)) return value.map(v => shown(v, state, once, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, shown(v, state, once, depth + 1)]));
}

const described = error => (error instanceof Error ? error.name + ': ' + error.message : 'thrown: ' + String(error));

const named = (name, f) => Object.assign(f, { fromStub: name });

const operation = (name, end = s => s) => named(name, (...args) => {
  events.push(['make', name, args.length]);
  return named('made ' + name, async state => {
    events.push(['run', name, args.map(a => shown(a, state, name === 'fn'))]);
    return end({ ...state, count: (state.count ?? 0) + 1 });
  });
});

const inOrder = (...list) => async state => {
  for (const one of list) state = await one(state);
  return state;
};

const adaptor = {
  fn: operation('fn'), get: operation('get'), post: operation('post'), each: operation('each'), other: operation('other'),
  later: operation('later', s => new Promise(resolve => setImmediate(resolve, s))),
  fails: operation('fails', () => { throw new Error('fails'); }),
  util: { op: operation('util.op') },
  helper2: named('helper2', (...args) => { events.push(['helper2', args.map(a => typeof a)]); return args[0]; }),
  execute: inOrder,
};
const runtime = {
  defer: (first, then = p => p, recover = error => { throw error; }) => state => {
    try {
      return then(Promise.resolve(first(state)).catch(error => recover(error, state)));
    } catch (error) {
      return recover(error, state);
    }
  },
};

const synthetic = exports => new vm.SyntheticModule(Object.keys(exports), function () {
  for (const [name, value] of Object.entries(exports)) this.setExport(name, value);
});
const modules = { '@openfn/language-test': synthetic(adaptor), '@openfn/runtime': synthetic(runtime) };

function newState() {
  const method = name => named('method ' + name, (...args) => {
    events.push(['method', name, args.map(a => (typeof a === 'function' ? { called: shown(a, state, true) } : shown(a, state, true)))]);
    return 'from ' + name;
  });
  const state = {
    x: 'X', y: 'Y', zero: 0, data: { id: 'ID' }, list: [1, 2], a: { b: { c: { d: 'D' } }, m: method('a.m') },
    m: method('m'), f: method('f'), callMeMaybe: method('callMeMaybe'),
  };
  return state;
}

async function effects(code) {
  events = [];
  try {
    const module = new vm.SourceTextModule(code);
    await module.link(name => modules[name] ?? Promise.reject(new Error('no module ' + name)));
    await module.evaluate();
    const { default: list, execute } = module.namespace;
    if (!Array.isArray(list)) throw new Error('the default export is no array');
    list.forEach((one, i) => { if (typeof one !== 'function') throw new Error('no operation at ' + i); });
    const state = newState();
    const final = await (execute ?? inOrder)(...list)(state);
    events.push(['ends', shown(final, state, true)]);
  } catch (error) {
    events.push(['fails', described(error)]);
  }
  return events;
}

Function.prototype.toString = () => 'the text of a function';
globalThis.console = { log: (...args) => { events.push(['console', args.map(String)]); } };
process.on('unhandledRejection', () => {});
for (const module of Object.values(modules)) await module.link(() => {});
const results = [];
for (const line of readFileSync(process.argv[2], 'utf8').split('\n')) {
  if (line) results.push(JSON.stringify(await effects(JSON.parse(line).code)));
}
process.stdout.write(results.join('\n') + '\n');
