// execution executes one run with OpenFn's runtime, and reports its steps.

import { loggers } from './logs.mjs';
import { Steps } from './steps.mjs';
import { makeRoom, room, send, size, stringify } from './wire.mjs';

// execute returns how the run ended, as the fields of an end message. Its state,
// if there is any, is JSON.
export async function execute(run, runtime, createLogger) {
  makeRoom(run.options.room);
  const steps = new Steps(run.plan.workflow.steps, run.plan.options.start);
  const logs = loggers(createLogger, run.options, () => steps.current);
  captureConsole(logs.adaptor);
  const leafs = { completed: 0 };
  const before = active();
  const uncaught = new Promise(resolve => {
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', error => {
      logs.adaptor.error(`Uncaught exception in worker thread (workflow ${run.plan.id} )`);
      logs.adaptor.error(error);
      resolve({ reason: 'crash', error_type: 'ExecutionError', error_message: messageOf(error), last: true }); // the run may still be going on
    });
  });
  const end = await Promise.race([followed(run, runtime, logs, steps, leafs), uncaught]);
  logs.close();
  await new Promise(setImmediate); // what is only about to end is not left behind
  return active() > before ? { ...end, last: true } : end;
}

// active is how much there is that can have code run later: timers, sockets, files.
// What a run leaves of it would be taken for the next one's.
const active = () => process.getActiveResourcesInfo().length;

async function followed(run, runtime, logs, steps, leafs) {
  try {
    const state = await runtime(run.plan, run.input ?? {}, {
      logger: logs.runtime,
      jobLogger: logs.job,
      disableEsmHook: true, // it is for modules that Node does not find by itself, and costs a thread
      linker: { whitelist: ['/^@openfn/'] },
      statePropsToRemove: run.options.state_props_to_remove,
      stateLimitMb: run.options.state_limit_mb,
      globals: { meta: Object.freeze(run.options.meta) },
      callbacks: { notify: (event, details) => notify(event, details, steps, leafs, limitOf(run)) },
    });
    return { state: smaller(finalState(state, leafs), limitOf(run), leafs) };
  } catch (error) {
    return ended(error);
  }
}

function notify(event, { jobId, next, state, error, duration, mem }, steps, leafs, limit) {
  switch (event) {
    case 'job-start':
      send({ type: 'step-start', job: jobId, ...steps.begin(jobId) });
      return;
    case 'job-complete':
    case 'job-error': {
      const leaf = next.length === 0;
      if (leaf) leafs.completed++;
      const json = stringify(state);
      const over = size(json) > limit;
      const response = stringify(state?.webhookResponse);
      const left = room - (over ? 0 : size(json));
      send({
        type: 'step-complete', step: steps.complete(next), leaf, duration, memory: mem, state_too_large: over,
        thread_id: `${process.pid}`, ...verdict(jobId, state, error),
      }, { state: over ? undefined : json, webhook_response: size(response) > left ? undefined : response });
    }
  }
}

// limitOf is how large a state may be to be sent, in bytes. One that is larger is
// still there for the next step.
function limitOf(run) {
  return Math.min(run.options.payload_mb * 2 ** 20, room);
}

// smaller returns a final state as JSON. One over the limit loses its data, as it
// would in the worker; nothing is left of one that is large beside them, and the worker withholds
// that of several leafs.
function smaller(state, limit, leafs) {
  let json = stringify(state);
  if (size(json) > limit && leafs.completed < 2 && json[0] === '{' && 'data' in state) json = stringify({ ...state, data: '[REDACTED]' });
  return size(json) > room ? undefined : json;
}

// verdict is the reason of a step. An error that a job wrote into the state
// itself counts as well.
function verdict(job, state, error) {
  if (error && error.severity !== 'fail') {
    return { reason: error.severity ?? 'crash', error_type: text(error.subtype ?? error.type ?? error.name), error_message: messageOf(error) };
  }
  const own = state?.errors?.[job];
  if (own) return { reason: 'fail', error_type: text(own.name), error_message: text(own.message) };
  return { reason: 'success' };
}

// ended is the reason of a run that was not followed to its end.
function ended(error) {
  return { reason: error?.severity ?? 'crash', error_type: text(error?.type ?? error?.name ?? 'Error'), error_message: messageOf(error) };
}

function messageOf(error) {
  return text(error?.message ?? error);
}

// text makes a text of what a job, or an adaptor, put where one belongs. The
// worker sends less of it than this.
function text(value) {
  if (value === undefined) return value;
  const all = value !== null && typeof value === 'object' ? stringify(value) : String(value);
  return all?.slice(0, 100_000);
}

// finalState leaves out what is empty at the top of a state, as OpenFn's worker does, unless it is what the only
// step came to that had none after it.
function finalState(state, leafs) {
  if (leafs.completed === 1 || state === null || typeof state !== 'object') return state;
  for (const key of Object.keys(state)) if (isEmpty(state[key])) delete state[key];
  return state;
}

function isEmpty(value) {
  if (value === null || typeof value !== 'object') return value === undefined;
  const keys = Object.keys(value);
  return keys.length === 0 || (keys.length === 1 && keys[0] === 'data' && value.data !== null && Object.keys(value.data).length === 0);
}

// captureConsole makes lines of the log of what adaptors print, except for their
// console.debug, which is for those who work on them.
function captureConsole(logger) {
  for (const level of ['log', 'info', 'warn', 'error']) console[level] = logger[level];
  console.debug = () => {};
}
