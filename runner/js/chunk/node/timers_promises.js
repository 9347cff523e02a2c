// timers/promises waits by the timers that jobs have.
const wait = (start, stop) => (value, { signal } = {}) => new Promise((done, fail) => {
  const abort = () => {
    stop(timer);
    fail(Object.assign(new Error('The operation was aborted', { cause: signal.reason }), { name: 'AbortError', code: 'ABORT_ERR' }));
  };
  const timer = start(() => {
    signal?.removeEventListener('abort', abort);
    done(value);
  });
  if (signal?.aborted) abort();
  else signal?.addEventListener('abort', abort);
});
const after = (delay, value, options) => wait(fire => setTimeout(fire, delay), clearTimeout)(value, options);
module.exports = {
  setTimeout: after, setImmediate: wait(setImmediate, clearImmediate), scheduler: { wait: (delay, options) => after(delay, undefined, options) },
  async * setInterval(delay, value, options) {
    for (;;) yield await after(delay, value, options);
  },
};
