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
  const logger = (name, level) => create(name, { logger: emitter, json: true, level });
  return {
    runtime: logger('R/T', 'debug'),
    job: logger('JOB', options.job_log_level || 'debug'),
    adaptor: logger('ADA', 'debug'),
  };
}
