// common.js has the operations of @openfn/language-common that are built in, with those of basic.js: those of which a test
// shows, beside the real package, that they come to the same (proof_test.go). operations.go says when a job may be executed
// with them. They are odd where the real ones are, and declared as those are: a job can tell. It is loaded late, for jobs
// that have one of them: see prelude.go.
//
// An operation is a function that takes its arguments and returns a function from state to state, or to a promise
// of one.
({ apply, asFunction, define, fn, hasOwn, isArray, keysOf, makeConsole }) => {
const adaptorConsole = makeConsole('ADA');

// resolve calls every function in a value with the state. The compiler makes such functions of `$.data.x`.
function resolve(state, value) {
  if (value?.constructor?.name === 'RegExp') return value;
  if (isArray(value)) return value.map(item => resolve(state, item));
  if (typeof value === 'function') return resolve(state, value(state));
  if (typeof value !== 'object' || !value || value.pipeTo || value.pipe) return value;
  const copy = {};
  const names = keysOf(value);
  for (let i = 0; i < names.length; i++) own(copy, names[i], resolve(state, value[names[i]]));
  return copy;
}

const own = (object, name, value) =>
  define(object, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });

// put is an assignment as in code that is not strict: what cannot be written stays as it is.
const put = (object, name, value) => Reflect.set(Object(object), name, value, object);

// spread is what to take apart in an object: QuickJS takes nothing out of a text.
const spread = value => (typeof value === 'string' ? Object(value) : value);

// ---- Paths

// follow returns all that stands at a path: names, indices and `*`, as operations.go lets them through.
function follow(path, json) {
  if (!json) return undefined;
  const found = [];
  walk(path.match(/\w+|\*/g) ?? [], 0, json, false, found);
  return found;
}

// walk goes one part of a path further. Behind a name, every other time, a `*` is a member of that name where there is one.
function walk(parts, at, value, named, found) {
  if (at === parts.length) {
    found.push(value);
    return;
  }
  const part = parts[at];
  const every = part === '*' && !(named && value && hasOwn(value, part));
  if (!every) {
    if (value && hasOwn(value, part)) walk(parts, at + 1, value[part], !named, found);
    return;
  }
  if (isArray(value)) {
    for (let i = 0; i < value.length; i++) walk(parts, at + 1, value[i], true, found);
  } else if (value && typeof value === 'object') {
    const names = keysOf(value);
    for (let i = 0; i < names.length; i++) walk(parts, at + 1, value[names[i]], true, found);
  }
}

const afterMarks = path => path.match(/^[\$\.]*(.+)/)[1];

function source(path) {
  return state => follow(path, state);
}

function sourceValue(path) {
  return state => follow(path, state)[0];
}

function dataPath(path) {
  return '$.data.' + afterMarks(path);
}

function dataValue(path) {
  return sourceValue(dataPath(path));
}

function referencePath(path) {
  return '$.references' + afterMarks(path);
}

function lastReferenceValue(path) {
  return sourceValue(referencePath('[0].' + path));
}

// ---- Running operations

function alterState(operation) {
  return fn(operation);
}

function fnIf(condition, operation) {
  return state => (resolve(state, condition) ? asFunction(operation, 'operation')(state) : state);
}

function combine(...operations) {
  return state =>
    operations.reduce(
      (before, operation) => {
        const next = state => asFunction(operation, 'operation')({ ...spread(state) });
        return before.then ? before.then(next) : next(before);
      },
      state,
    );
}

function each(dataSource, operation) {
  if (!dataSource) throw new TypeError('dataSource argument for each operation is invalid.');
  return state => {
    const items = itemsOf(dataSource, state);
    asFunction(items.reduce, 'asData(...).reduce');
    return items.reduce((before, data, index) => {
      const next = state => asFunction(operation, 'operation')({ ...spread(state), data, index });
      return before.then ? before.then(next) : next(before);
    }, state);
  };
}

function itemsOf(dataSource, state) {
  switch (typeof dataSource) {
    case 'string': return source(dataSource)(state);
    case 'object': return dataSource;
    case 'function': return dataSource(state);
  }
}

const map = function (path, callback) {
  return async state => {
    const data = [];
    let index = 0;
    for (const item of typeof path === 'string' ? source(path)(state) : path) {
      data.push(await callback(item, index++, state));
    }
    return { ...spread(state), data };
  };
};

function as(key, operation) {
  return async state => {
    const name = resolve(state, key);
    const before = state.data;
    const { data, ...rest } = spread(await asFunction(operation, 'operation')(state));
    put(state, name, data);
    put(state, 'data', before);
    return { ...spread(state), ...rest };
  };
}

// ---- Data

function field(key, value) {
  return [key, value];
}

function fields(...pairs) {
  const made = {};
  for (let i = 0; i < pairs.length; i++) own(made, pairs[i][0], pairs[i][1]);
  return made;
}

function index() {
  return state => state.index;
}

function composeNextState(state, response) {
  if (!state.references) put(state, 'references', []);
  return { ...spread(state), data: response, references: [...state.references, state.data] };
}

// ---- Checks and logs

function assert(expression, message) {
  return state => {
    const [holds, text] = resolve(state, [expression, message]);
    if (!holds) throw new Error(text || `assertion statement failed with ${holds}`);
    return state;
  };
}

function log(...args) {
  return state => {
    adaptorConsole.log(...resolve(state, args));
    return state;
  };
}

// A debug line of an adaptor is never sent; what it is to say is looked up all the same.
function debug(...args) {
  return state => {
    resolve(state, args);
    return state;
  };
}

return {
  alterState, as, assert, combine, composeNextState, dataPath, dataValue, debug, each, field, fields, fnIf, index,
  lastReferenceValue, log, map, referencePath, source, sourceValue,
};
}
