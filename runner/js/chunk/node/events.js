// events is the package's, with what is newer.
const made = require('events/');
made.errorMonitor ??= Symbol('events.errorMonitor');
made.captureRejectionSymbol ??= Symbol.for('nodejs.rejection');
made.getEventListeners ??= (emitter, name) => emitter.listeners(name);
made.setMaxListeners ??= (most, ...emitters) => { for (const one of emitters) one.setMaxListeners?.(most); };
module.exports = made;
