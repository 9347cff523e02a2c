// timers.js has the callbacks of timers; Go has the time.

const timers = new NativeMap();
let lastTimer = 0;

class Timeout {
  #id;
  constructor(id) { this.#id = id; }
  static id(timer) {
    return typeof timer === 'object' && timer !== null && #id in timer ? timer.#id : Number(timer);
  }
  // Whether a timer holds up the process is of no concern here: a run ends
  // when its last operation has.
  ref() { return this; }
  unref() { return this; }
  hasRef() { return true; }
  close() { clearTimer(this); return this; }
  [Symbol.toPrimitive]() { return this.#id; }
}
const idOf = Timeout.id;

function startTimer(callback, delay, args, repeat) {
  if (typeof callback !== 'function') {
    const error = new NativeTypeError('The "callback" argument must be of type function. Received ' + received(callback));
    error.code = 'ERR_INVALID_ARG_TYPE';
    throw from('host', error);
  }
  const id = ++lastTimer;
  // As in Node, what is no delay from 1 ms up to 24 days is 1 ms.
  delay = Number(delay);
  if (!(delay >= 1 && delay <= 0x7fffffff)) delay = 1;
  mapSet(timers, id, { callback, args, delay, repeat });
  host('timer', id, delay);
  return new Timeout(id);
}

// received is for what Node says of an argument.
function received(value) {
  if (value === undefined || value === null) return TextOf(value);
  if (typeof value === 'object') return 'an instance of ' + constructorName(value);
  return `type ${typeof value} (${typeof value === 'string' ? `'${value}'` : TextOf(value)})`;
}

function clearTimer(timer) {
  if (timer === undefined || timer === null) return;
  const id = idOf(timer);
  if (mapDelete(timers, id)) host('clear', id);
}

// fire runs the callback of a timer that is due.
function fire(id) {
  const timer = mapGet(timers, id);
  if (!timer) return;
  if (!timer.repeat) mapDelete(timers, id);
  try {
    apply(timer.callback, undefined, timer.args);
  } catch (error) {
    uncaught(error);
  }
  if (timer.repeat && mapGet(timers, id) === timer) host('timer', id, timer.delay);
}

// uncaught ends the run: nobody is left to handle the error.
function uncaught(error) {
  host('uncaught', facts(error), logged(error));
}

// unhandled ends the run for a promise that was rejected and that nobody
// handles.
// That a step failed with this error is no reason: the promise of a module that
// throws, for one, is QuickJS's own.
function unhandled(reason) {
  if (!ended || reason !== endedBy) uncaught(isThrown(reason) ? reason : new UnhandledPromiseRejection(reason));
}

// isThrown reports whether a rejection has what Node takes for an error.
const isThrown = reason => typeof reason === 'object' && reason !== null && hasOwn(reason, 'stack');

class UnhandledPromiseRejection extends NativeError {
  name = 'UnhandledPromiseRejection';
  constructor(reason) {
    super(
      'This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise which was not ' +
        `handled with .catch(). The promise rejected with the reason "${shown(reason)}".`,
    );
  }
}

function installTimers() {
  hide(globalThis, 'setTimeout', function setTimeout(callback, delay, ...args) {
    return startTimer(callback, delay, args, false);
  });
  hide(globalThis, 'setInterval', function setInterval(callback, delay, ...args) {
    return startTimer(callback, delay, args, true);
  });
  hide(globalThis, 'clearTimeout', clearTimer);
  hide(globalThis, 'clearInterval', clearTimer);
}
