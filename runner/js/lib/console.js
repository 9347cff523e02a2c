// console.js makes the consoles. JOB is the source of a job's own lines, ADA
// that of the lines of adaptors and of conditions.

// logged returns an argument of a console method as JSON.
function logged(value) {
  try {
    return toJSON(presentable(value)) ?? 'null';
  } catch (error) {
    return stringify('[cannot be logged: ' + TextOf(read(error, 'message')) + ']');
  }
}

function presentable(value) {
  if (value === null || typeof value !== 'object') return value;
  if (isError(value)) return describeError(value);
  const configuration = value.configuration;
  if (configuration === null || typeof configuration !== 'object') return value;
  // A state is logged often, and its credentials must not be.
  const copy = { ...value, configuration: { ...configuration } };
  const keys = keysOf(copy.configuration);
  for (let i = 0; i < keys.length; i++) copy.configuration[keys[i]] = '****';
  return copy;
}

function describeError(error) {
  const name = text(read(error, 'name')) || 'Error';
  return { name, message: text(read(error, 'message')) || name, ...error };
}

function write(source, level, args) {
  // Nothing, or null alone, is no line.
  if (args.length === 0 || (args.length === 1 && args[0] === null)) return;
  const call = ['log', source, level];
  for (let i = 0; i < args.length; i++) define(call, i + 3, { __proto__: null, value: logged(args[i]) });
  apply(host, undefined, call);
}

// makeConsole returns a console that cannot be changed, as OpenFn's runtime gives it to jobs. A job may put one of its
// own in its place.
function makeConsole(source) {
  const methods = {};
  const levels = ['debug', 'info', 'warn', 'error', 'success', 'always'];
  for (let i = 0; i < levels.length; i++) {
    const level = levels[i];
    methods[level] = { [level](...args) { write(source, level, args); } }[level];
  }
  methods.log = { log(...args) { write(source, 'info', args); } }.log;
  return freeze(methods);
}
