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

// assemble makes the state of a step: the job's defaults, what the step before
// came to, and the credential. Nothing but an object, or an array, which gives
// its indices, is taken for a state.
function assemble(previous, defaults, credential) {
  const base = asObject(defaults);
  const state = { ...base, ...asObject(previous) };
  const configuration = { ...asObject(state.configuration), ...asObject(credential) };
  // The order is that of a new state: configuration, then data.
  delete state.configuration;
  state.configuration = configuration;
  if (isPlain(base.data) && isPlain(state.data)) state.data = { ...base.data, ...state.data };
  if (!state.data) state.data = base.data || {};
  return state;
}

const asObject = value => (value !== null && typeof value === 'object' ? value : {});
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
  if (job.globals) {
    phase = 'globals';
    hide(globalThis, 'meta', freeze(job.meta));
    const shared = await import(job.globals);
    const names = keysOf(shared);
    for (let i = 0; i < names.length; i++) globalThis[names[i]] = shared[names[i]];
    phase = 'load';
    if (!hasOwn(shared, 'meta')) fix('meta', job.meta);
  } else {
    fix('meta', job.meta);
  }
  if (job.buffer) hide(globalThis, 'Buffer', bufferOfJobs());
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

// operation gives an operation an empty state where the one before returned
// none, and notes where the job is.
function operation(implementation, index) {
  return state => {
    position = index;
    phase = 'operation';
    if (!state) {
      host('stateless', index + 1);
      state = {};
    }
    return implementation(state);
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
  let state = result;
  if (failed !== '') {
    state = input;
    const error = parse(failed);
    if (error !== null) state = withProperty(state, 'errors', { ...state.errors, [job]: error });
  }
  if (!state) return host('state');
  const remove = parse(removed);
  for (let i = 0; i < remove.length; i++) {
    if (isPlain(state) && hasOwn(state, remove[i])) state = withoutProperty(state, remove[i]);
  }
  const json = toJSON(state);
  if (json === undefined) return host('state', undefined, 'unserialisable');
  const own = isPlain(state) && isPlain(state.errors) ? state.errors[job] : undefined;
  const response = isPlain(state) ? state.webhookResponse : undefined;
  host('state', json, own ? facts(own) : undefined, response ? toJSON(response) : undefined);
}

// The state is changed in place where it lets itself be: a copy would not be
// what the state itself may refer to.

function withProperty(state, name, value) {
  const property = { __proto__: null, value, writable: true, enumerable: true, configurable: true };
  return define(state, name, property) ? state : { ...state, [name]: value };
}

function withoutProperty(state, name) {
  if (deleteProperty(state, name)) return state;
  const copy = { ...state };
  delete copy[name];
  return copy;
}
