// process, as far as packages look at it: no environment, no arguments, no files.
const later = (callback, ...args) => { host.queueMicrotask(() => callback(...args)); };

module.exports = {
  env: {}, argv: [], execArgv: [], title: 'node', platform: 'linux', arch: 'x64', pid: 1, version: 'v20.20.0',
  versions: { node: '20.20.0' }, release: { name: 'node' }, features: {}, config: {}, browser: false, exitCode: undefined,
  nextTick: later, cwd: () => '/', umask: () => 0, uptime: () => 1, emitWarning() {}, emit: () => false,
  on() { return this; }, once() { return this; }, off() { return this; }, removeListener() { return this; }, listeners: () => [],
  hrtime: Object.assign(() => [Math.floor(Date.now() / 1000), (Date.now() % 1000) * 1e6], { bigint: () => BigInt(Date.now()) * 1000000n }),
  stdout: { isTTY: false, fd: 1, write: () => true }, stderr: { isTTY: false, fd: 2, write: () => true }, [Symbol.toStringTag]: 'process',
  binding() { throw new Error('process.binding is not here'); },
};
