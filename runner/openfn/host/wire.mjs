// wire writes the protocol's messages. Whatever else is written to stdout, by
// an adaptor say, must not mix with them, so it becomes a line of the log.

const { writeSync } = process.getBuiltinModule('fs');

const clock = new Int32Array(new SharedArrayBuffer(4));

// room is what one member of a message may take, in bytes. The worker ends a run over a
// message that is much longer.
export let room = 1 << 20;

export function makeRoom(bytes) {
  room = bytes;
}

// send returns when the message is written: a job that floods the log has to
// wait for the worker, and what it logs before it hangs or dies arrives. The
// further members are JSON texts; those that are undefined are left out.
export function send(message, members = {}) {
  const texts = Object.entries(members).filter(([, text]) => text !== undefined).map(([name, text]) => `,"${name}":${text}`);
  const bytes = Buffer.from(`${stringify(message).slice(0, -1)}${texts.join('')}}\n`);
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(1, bytes, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error; // the worker is gone
      Atomics.wait(clock, 0, 0, 2); // ms; nobody wakes it
    }
  }
}

// size returns how many bytes a JSON text has; undefined has none.
export function size(json) {
  return json === undefined ? 0 : Buffer.byteLength(json);
}

// Node makes its stdout when it is first asked for, which takes a hundredth of a run and is not needed in most.
const { get: makeStdout } = Object.getOwnPropertyDescriptor(process, 'stdout');
let stdout;
Object.defineProperty(process, 'stdout', {
  configurable: true,
  enumerable: true,
  get: () => (stdout ??= Object.assign(makeStdout.call(process), { write })),
});

function write(chunk, encoding, done) {
  const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString();
  send({ type: 'log', level: 'info', source: 'ADA', message: [text.slice(0, 2 ** 20).replace(/\n$/, '')] });
  (typeof encoding === 'function' ? encoding : done)?.();
  return true;
}

// stringify is JSON.stringify for what a job made: it may refer to itself, or
// be no JSON at all.
export function stringify(value) {
  try {
    return JSON.stringify(value);
  } catch {
    return JSON.stringify(value, plain());
  }
}

// plain replaces what refers to itself, and what has no form in JSON.
function plain() {
  const path = []; // from the root to the holder of the present key
  return function (key, item) {
    if (typeof item === 'bigint') return String(item);
    if (typeof item !== 'object' || item === null) return item;
    while (path.length > 0 && path.at(-1) !== this) path.pop();
    if (path.includes(item)) return '[Circular]';
    path.push(item);
    return item;
  };
}
