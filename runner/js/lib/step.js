// step.js executes one step: it loads the job's module and runs its operations
// one after the other, each on what the one before returned.

// input is the state that the step began with. Operations that change it in
// place change what is reported when a later one fails.
let input;
// result is what the last operation returned, of a step that did not fail.
let result;
// position is the operation under way, -1 before the first; phase is "globals",
// "load" or "operation".
let position = -1;
let phase = 'load';
// endedBy is the error that the operations ended with, once they have ended so.
let ended = false;
let endedBy;

// assemble makes the state of a step: the job's defaults, what the step before came to, and the credential. Of the
// defaults, the configuration is left out; their data is what is not in that of the step before, if that is an object.
function assemble(previous, defaults, credential) {
  const base = { ...(isPlain(defaults) ? defaults : undefined) };
  const before = members(previous);
  const state = { ...base, ...before };
  state.configuration = { ...members(before.configuration), ...(isPlain(credential) ? credential : undefined) };
  const { data } = before;
  state.data = data && !isPlain(data) ? data : { ...members(base.data), ...data };
  return state;
}

// members are what a spread takes of a value. QuickJS has it take nothing of a text.
const members = value => (typeof value === 'string' ? assign({}, value) : { ...value });
const isPlain = value => value !== null && typeof value === 'object' && !isArray(value);

function receive(previous, defaults, credential) {
  input = assemble(parse(previous), parse(defaults), parse(credential));
}

function begin(job) {
  installJSON();
  installTimers();
  globalThis.console = makeConsole('JOB');
  globalThis.state = input;
  runJob(parse(job));
}

// fix defines a global that nobody changes.
function fix(name, value) {
  define(globalThis, name, { __proto__: null, value: freeze(value), writable: false, configurable: false, enumerable: true });
}

// kept are the globals whose names globals of the plan cannot take.
const kept = {
  __proto__: null, console: true, clearInterval: true, clearTimeout: true, parseFloat: true, parseInt: true,
  setInterval: true, setTimeout: true, state: true, Buffer: true,
};

// runJob reports the end of the operations as "settled".
async function runJob(job) {
  let value;
  try {
    value = await operations(job);
  } catch (error) {
    ended = true;
    endedBy = error;
    host('settled', facts(error), position, phase);
    return;
  }
  result = value;
  host('settled', '', position, phase);
}

async function operations(job) {
  if (job.modules) {
    // The modules read what they export from a global, once, before any code
    // of the job runs.
    const made = {};
    for (let i = 0; i < job.modules.length; i++) {
      const { name, entry, uses } = job.modules[i];
      made[name] = name === '@openfn/runtime' ? { defer } : entry ? packages()(entry) : adaptor(uses);
    }
    hide(globalThis, job.handover, made);
    for (let i = 0; i < job.modules.length; i++) await import(job.modules[i].name);
    delete globalThis[job.handover];
  }
  if (job.buffer) hide(globalThis, 'Buffer', bufferOfJobs());
  if (job.globals) {
    phase = 'globals';
    hide(globalThis, 'meta', freeze(job.meta));
    globalThis.state = {};
    const shared = await import(job.globals);
    globalThis.state = input;
    const names = keysOf(shared);
    for (let i = 0; i < names.length; i++) {
      if (!kept[names[i]]) globalThis[names[i]] = freeze(shared[names[i]]);
    }
    phase = 'load';
    if (!hasOwn(shared, 'meta')) fix('meta', job.meta);
  } else {
    fix('meta', job.meta);
  }
  const module = await import(job.module);
  const list = module.default;
  if (!isArray(list)) {
    throw from('exports', new NativeError('Invalid exports in job expression: exports must be an array'));
  }
  const wrapped = [];
  for (let i = 0; i < list.length; i++) {
    if (typeof list[i] !== 'function') {
      throw from('operation', new NativeError('Invalid operation at statement ' + i));
    }
    wrapped[i] = operation(list[i], i);
  }
  const run = typeof module.execute === 'function' ? module.execute : inOrder;
  return await apply(run, undefined, wrapped)(input);
}

// stateless marks the empty state that stands for none: the adaptor's own code between two operations may read and
// copy it.
const stateless = Symbol('stateless');

// operation notes where the job is, and has an empty state come of an operation that returned none.
function operation(implementation, index) {
  return async state => {
    position = index;
    phase = 'operation';
    if (state?.[stateless]) {
      delete state[stateless];
      host('stateless', index + 1);
    }
    return (await implementation(state)) || { [stateless]: true };
  };
}

function inOrder(...list) {
  return async state => {
    for (let i = 0; i < list.length; i++) state = await list[i](state);
    return state;
  };
}

// finish hands over the state that the step leaves behind. failed is "" after
// a success; else the step's input is reported, with the error, given as JSON
// (or "null" for none), under the name of the job in state.errors.
function finish(failed, job, removed) {
  let state = failed === '' ? result : input;
  const remove = parse(removed);
  for (let i = 0; i < remove.length; i++) {
    if (isPlain(state) && hasOwn(state, remove[i]) && !deleteProperty(state, remove[i])) return host('state', undefined, 'fixed', remove[i]);
  }
  const error = failed === '' ? null : parse(failed);
  if (error !== null) state = withProperty(state, 'errors', { ...state.errors, [job]: error });
  if (!state || state[stateless]) return host('state');
  const json = toJSON(state);
  if (json === undefined) return host('state', undefined, 'unserialisable');
  const own = isPlain(state) && state.errors ? parse(json)?.errors?.[job] : undefined;
  const response = isPlain(state) ? state.webhookResponse : undefined;
  host('state', json, own ? facts(own) : undefined, response ? toJSON(response) : undefined);
}

// withProperty changes the state in place where it lets itself be: a copy would not be what the state itself may refer to.
function withProperty(state, name, value) {
  const property = { __proto__: null, value, writable: true, enumerable: true, configurable: true };
  return define(state, name, property) ? state : { ...state, [name]: value };
}
