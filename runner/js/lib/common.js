// common.js has the basic operations, those of @openfn/language-common. An
// operation is a function that takes its arguments and returns a function from
// state to state, or to a promise of one.
//
// An argument may be given as a function of the state, which is what the
// compiler makes of `$.data.x`: a reference. Operations resolve references when
// they run.

const adaptorConsole = makeConsole('ADA');

const isThenable = value => isObject(value) && typeof value.then === 'function';

// after calls a function with a value, or with what a promise for it becomes.
// Operations that need not wait stay synchronous.
const after = (value, then) => (isThenable(value) ? value.then(then) : then(value));

// expandReferences calls every function in a value with the arguments, in
// arrays and objects too.
function expandReferences(value, ...args) {
  if (typeof value === 'function') return expandReferences(value(...args), ...args);
  if (Array.isArray(value)) return value.map(item => expandReferences(item, ...args));
  if (isObject(value) && (Object.getPrototypeOf(value) === Object.prototype || Object.getPrototypeOf(value) === null)) {
    const copy = {};
    for (const key of Object.keys(value)) copy[key] = expandReferences(value[key], ...args);
    return copy;
  }
  return value;
}

// ---- Running operations

const fn = operation => state => operation(state);

const fnIf = (condition, operation) => state => (expandReferences(condition, state) ? operation(state) : state);

const combine = (...operations) => state =>
  operations.reduce((result, operation) => after(result, operation), state);

const execute = (...operations) => async state => {
  for (let i = 0; i < operations.length; i++) state = await operations[i](state);
  return state;
};

function each(dataSource, operation, ...rest) {
  if (typeof dataSource !== 'function' && !isObject(dataSource) && typeof dataSource !== 'string') {
    throw new TypeError('dataSource argument for each operation is invalid.');
  }
  const run = state => {
    const items = itemsOf(dataSource, state);
    if (!Array.isArray(items)) {
      throw new TypeError(`each() needs an array to go through, not ${items === null ? 'null' : typeof items}`);
    }
    return items.reduce(
      (result, data, index) => after(result, state => operation({ ...state, data, index })),
      state,
    );
  };
  return rest.length > 0 ? run(rest[0]) : run;
}

// itemsOf resolves the first argument of operations that go through a list: a
// path, the list itself, or a function of the state.
function itemsOf(dataSource, state) {
  if (typeof dataSource === 'string') return query(dataSource, state);
  return typeof dataSource === 'function' ? dataSource(state) : dataSource;
}

function map(path, operation, ...rest) {
  const run = state => {
    const values = typeof path === 'string' ? query(path, state) : path;
    let result = state;
    for (const data of values) result = after(result, state => operation({ ...state, data }));
    return result;
  };
  return rest.length > 0 ? run(rest[0]) : run;
}

const as = (key, operation) => state => {
  const { data } = state;
  return after(operation(state), result => ({ ...result, data, [key]: result.data }));
};

function group(arrayOrPath, keyPath, callback = state => state) {
  return state => {
    const items = itemsOf(arrayOrPath, state);
    const path = expandReferences(keyPath, state);
    const groups = {};
    for (const item of items) {
      const key = query(path, item)[0];
      if (key !== undefined) (groups[key] ??= []).push(item);
    }
    return callback({ ...state, data: groups });
  };
}

// ---- Values from the state

const source = path => state => query(path, state);
const sourceValue = path => state => query(path, state)[0];
const dataPath = path => `$.data.${/^\$?\.?(.*)$/s.exec(path)[1]}`;
const dataValue = path => sourceValue(dataPath(path));
const referencePath = path => `$.references[-1].${/^\$?\.?(.*)$/s.exec(path)[1]}`;
const lastReferenceValue = path => sourceValue(referencePath(path));
const index = () => state => state.index;

// ---- Building data

const field = (key, value) => [key, value];
const fields = (...pairs) => Object.fromEntries(pairs);

const merge = (dataSource, extra) => state => {
  const more = expandReferences(extra, state);
  return itemsOf(dataSource, state).map(item => ({ ...item, ...more }));
};

const join = (targetPath, sourcePath, targetKey) => state => {
  const value = sourceValue(sourcePath)(state);
  return query(targetPath, state).map(item => ({ [targetKey]: value, ...item }));
};

const composeNextState = (state, response) => ({
  ...state,
  data: response,
  references: [...(state.references ?? []), state.data],
});

const toArray = value => (Array.isArray(value) ? value : [value]);
const arrayToString = (array, separator) => array.join(separator);
const humanProper = text =>
  typeof text === 'string'
    ? text.replace(/_/g, ' ').replace(/\S+/g, word => word[0].toUpperCase() + word.slice(1).toLowerCase())
    : text;
const scrubEmojis = (text, replacement = '\uFFFD') =>
  text && text.replace(/\p{Extended_Pictographic}/gu, replacement);

function chunk(array, size = 1) {
  const chunks = [];
  for (let i = 0; i < array.length; i += size) chunks.push(array.slice(i, i + size));
  return chunks;
}

// splitKeys returns an object in two: without some keys, and with only those.
function splitKeys(object, keys) {
  const without = {};
  const only = {};
  for (const key of Object.keys(object)) (keys.includes(key) ? only : without)[key] = object[key];
  return [without, only];
}

// ---- Checks and logs

const assert = (condition, message) => state => {
  const holds = typeof condition === 'string' ? query(condition, state)[0] : expandReferences(condition, state);
  if (!holds) throw new Error(expandReferences(message, state) ?? 'assertion failed');
  return state;
};

const validate = (schema = 'schema', data = 'data') => state => {
  const rules = fromState(schema, state);
  if (typeof rules === 'string') {
    throw new Error('validate() can take a schema from the state or as an object; for one at a URL, this job needs the OpenFn engine (--engine auto or openfn)');
  }
  const value = fromState(data, state);
  const errors = load('schema').check(rules, value);
  if (errors.length > 0) (state.validationErrors ??= []).push({ data: value, errors });
  return state;
};

// fromState resolves an argument that is a reference or names a key of the
// state.
const fromState = (value, state) =>
  typeof value === 'string' ? (/^https?:/.test(value) ? value : query(value, state)[0]) : expandReferences(value, state);

const log = (...args) => state => {
  adaptorConsole.log(...args.map(arg => expandReferences(arg, state)));
  return state;
};

// A debug line of an adaptor is never sent.
const debug = () => state => state;

// ---- Input of other kinds

const parseCsv = (csv, options = {}, callback) => state => {
  const [text, settings] = [expandReferences(csv, state), expandReferences(options, state)];
  const { chunkSize = Infinity, ...format } = settings ?? {};
  const rows = load('csv').parse(text, format);
  if (!callback) return composeNextState(state, rows);
  return chunk(rows, chunkSize === Infinity ? Math.max(rows.length, 1) : chunkSize).reduce(
    (result, part) => after(result, state => callback(state, part)),
    state,
  );
};

const cursor = (value, options = {}) => state => {
  const { format, defaultValue, key = 'cursor' } = options;
  const given = expandReferences(value, state) ?? expandReferences(defaultValue, state);
  const date = typeof given === 'string' ? natural(given) : undefined;
  const next = date ? (format ? format(date) : date.toISOString()) : format ? format(given) : given;
  if (date) adaptorConsole.log(`Setting ${key} "${given}" to: ${next}`);
  else adaptorConsole.log(`Setting ${key} to:`, next);
  return { ...state, [key]: next };
};

// natural returns the date that a word means for cursor(), if it means one.
function natural(word) {
  const date = new Date();
  const days = { today: 0, yesterday: -1, tomorrow: 1 };
  const ago = /^(\d+) (minute|hour|day|week)s? ago$/.exec(word);
  if (word === 'now' || word === 'end') return date;
  if (word === 'start') return new Date(startedAt);
  if (ago) {
    return new Date(date.getTime() - Number(ago[1]) * { minute: 6e4, hour: 36e5, day: 864e5, week: 6048e5 }[ago[2]]);
  }
  if (!Object.hasOwn(days, word)) return undefined;
  date.setHours(0, 0, 0, 0);
  date.setDate(date.getDate() + days[word]);
  return date;
}

const startedAt = Date.now();

// ---- What is not here

// elsewhere stands for a part of the adaptor that needs more than this engine
// has.
function elsewhere(name) {
  return new Proxy({ __proto__: null }, {
    get(_, key) {
      if (typeof key === 'symbol' || key === 'then') return undefined;
      return () => {
        throw new Error(`${name}.${key}() is not one of the basic operations; this job needs the OpenFn engine (--engine auto or openfn)`);
      };
    },
  });
}

// defer is what the compiler makes of a chain: op(…).then(f).catch(g). Where the
// operation throws before it has returned a promise, there is no chain.
const defer = (operation, complete = promise => promise, recover = error => { throw error; }) => state => {
  let promise;
  try {
    promise = Promise.resolve(operation(state));
  } catch (error) {
    return recover(error, state);
  }
  return complete(promise.catch(error => recover(error, state)));
};

// adaptor returns the exports of @openfn/language-common.
const adaptor = () => ({
  alterState: fn, arrayToString, as, assert, chunk, combine, composeNextState, cursor, dataPath, dataValue,
  dateFns: elsewhere('dateFns'), debug, each, execute, expandReferences, field, fields, fn, fnIf, group,
  http: elsewhere('http'), humanProper, index, join, lastReferenceValue, log, map, merge, parseCsv, referencePath,
  scrubEmojis, source, sourceValue, splitKeys, toArray, util: elsewhere('util'), validate,
});
