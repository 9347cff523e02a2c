// values.js turns JavaScript values into JSON.

const CIRCULAR = '[Circular]';

// toJSON is JSON.stringify for values that need not be fit for it: a reference
// to an object that is being written becomes "[Circular]", a BigInt the string
// of its digits. It returns undefined where JSON.stringify does.
function toJSON(value) {
  try {
    return stringify(value);
  } catch (error) {
    if (!(error instanceof NativeTypeError)) throw error;
  }
  return stringify(tree(value, '', []));
}

// tree returns a copy that JSON.stringify takes.
function tree(value, key, ancestors) {
  if (typeof value === 'bigint') return TextOf(value);
  if (value === null || typeof value !== 'object') return value;
  if (typeof value.toJSON === 'function') return tree(value.toJSON(key), key, ancestors);
  for (let i = 0; i < ancestors.length; i++) {
    if (ancestors[i] === value) return CIRCULAR;
  }
  const depth = ancestors.length;
  ancestors[depth] = value;
  let copy;
  if (isArray(value)) {
    copy = [];
    for (let i = 0; i < value.length; i++) copy[i] = tree(value[i], TextOf(i), ancestors);
  } else {
    copy = { __proto__: null };
    const keys = keysOf(value);
    for (let i = 0; i < keys.length; i++) copy[keys[i]] = tree(value[keys[i]], keys[i], ancestors);
  }
  ancestors.length = depth;
  return copy;
}

// read returns a property of something that a job threw, undefined if reading
// it fails.
function read(object, name) {
  try {
    return object[name];
  } catch {
    return undefined;
  }
}

function isClassless(value) {
  try {
    return value.constructor === undefined || value.constructor === null;
  } catch {
    return false;
  }
}

function nameOfClass(error) {
  try {
    return getPrototypeOf(error).name;
  } catch {
    return undefined; // it has no class, or is a proxy that does not want to be looked at
  }
}

function isError(value) {
  try {
    return value instanceof NativeError;
  } catch {
    return false; // a proxy that does not want to be looked at
  }
}

// facts describes something that was thrown, as JSON. What it means is decided
// in Go.
function facts(thrown) {
  if (thrown === null || (typeof thrown !== 'object' && typeof thrown !== 'function')) {
    return stringify({ __proto__: null, kind: thrown === null ? 'null' : typeof thrown, text: TextOf(thrown) });
  }
  const constructor = read(thrown, 'constructor');
  return stringify({
    __proto__: null, // nor a toJSON that a job gave to all objects
    kind: 'object',
    error: isError(thrown),
    classless: isClassless(thrown),
    origin: weakGet(origins, thrown),
    class: text(constructor && read(constructor, 'name')),
    name: text(read(thrown, 'name')),
    // The name that it had as it was made: V8 puts that before its stack.
    first: text(nameOfClass(thrown)),
    text: text(read(thrown, 'message')),
    stack: text(read(thrown, 'stack')),
    severity: text(read(thrown, 'severity')),
    details: details(thrown),
  });
}

const text = value => (typeof value === 'string' ? value : undefined);

// details are an error's message and what it is as JSON, in OpenFn's order.
function details(error) {
  const message = text(read(error, 'message'));
  try {
    return assign({ message: error.message }, parse(toJSON(error)));
  } catch {
    return { message };
  }
}
