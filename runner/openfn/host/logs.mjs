// logs makes the loggers of a run: what they are given is sent to the worker as
// lines of the step that is under way.

import { send } from './wire.mjs';

const levels = ['debug', 'info', 'log', 'warn', 'error', 'success', 'always'];

export function loggers(create, options, currentStep) {
  const emitter = {};
  for (const level of levels) {
    emitter[level] = line => {
      send({
        type: 'log', step: currentStep(), source: line.name, message: line.message, time: Date.now(),
        level: line.level === 'log' ? 'info' : line.level,
      });
    };
  }
  const logger = (name, level) => withoutFunctions(create(name, { logger: emitter, json: true, level }));
  return {
    runtime: logger('R/T', 'debug'),
    job: logger('JOB', options.job_log_level || 'debug'),
    adaptor: logger('ADA', 'debug'),
  };
}

// withoutFunctions has functions arrive as null. OpenFn's logger never comes back
// from one that has a prototype, as classes have: it looks for an error in it.
function withoutFunctions(logger) {
  for (const level of levels) {
    const log = logger[level];
    logger[level] = (...items) => log(...items.map(item => (typeof item === 'function' ? nothing : item)));
  }
  return logger;
}

// A line of nothing but null would be left out.
const nothing = { toJSON: () => null };
