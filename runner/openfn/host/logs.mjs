// logs makes the loggers of a run: what they are given is sent to the worker as
// lines of the step that is under way.

import { room, send, size, stringify } from './wire.mjs';

const levels = ['debug', 'info', 'log', 'warn', 'error', 'success', 'always'];

export function loggers(create, options, currentStep) {
  const emitter = {};
  let closed = false;
  for (const level of levels) {
    emitter[level] = line => {
      if (closed) return;
      let message = stringify(line.message);
      if (size(message) > room) message = stringify([`(this line had ${size(message)} bytes; it was left out)`]);
      send({ type: 'log', step: currentStep(), source: line.name, time: Date.now(), level: line.level === 'log' ? 'info' : line.level }, { message });
    };
  }
  const logger = (name, level) => withoutFunctions(create(name, { logger: emitter, json: true, level }));
  return {
    runtime: logger('R/T', 'debug'),
    job: logger('JOB', options.job_log_level || 'debug'),
    adaptor: logger('ADA', 'debug'),
    close: () => { closed = true; }, // what a run left running is heard no more
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
