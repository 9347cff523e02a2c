// harden takes from the process what Node's permission model leaves to whoever
// gets hold of it: ways to other processes, the worker's among them, to sockets that others
// reach, and to files by way of V8, of links and sockets in the file system, and of
// another working folder.

import { guard } from './own.mjs';

const { fileURLToPath } = process.getBuiltinModule('url');
const [child, dgram, fs, module, net, os, path, v8] = ['child_process', 'dgram', 'fs', 'module', 'net', 'os', 'path', 'v8'].map(name => process.getBuiltinModule(name));

const taken = [
  [process, 'process', [
    'kill', '_kill', '_debugProcess', '_debugEnd', '_startProfilerIdleNotifier', 'binding', '_linkedBinding', 'dlopen', 'loadEnvFile',
    'setuid', 'setgid', 'seteuid', 'setegid', 'setgroups', 'initgroups', 'chdir', 'execve',
  ]],
  [v8, 'v8', ['setFlagsFromString', 'setHeapSnapshotNearHeapLimit', 'takeCoverage', 'stopCoverage']], // some flags write files
  [os, 'os', ['setPriority', 'getPriority']], // the second tells which processes there are
  [child, 'child_process', ['_forkChild']],
  [fs, 'fs', ['symlink', 'symlinkSync']], // what leads through a link is judged by its text
  [fs.promises, 'fs.promises', ['symlink']],
  [module, 'module', ['findPackageJSON', '_readPackage']], // they tell whether a package is there, and what is in it
];

const refuse = name => () => {
  throw denied(`${name} is not allowed`);
};

const denied = message => Object.assign(new Error(message), { code: 'ERR_ACCESS_DENIED' });

// What the calls of sockets return, for Node to make an error of.
const noAccess = () => -os.constants.errno.EACCES;

export async function harden() {
  try {
    taken.push([process.getBuiltinModule('trace_events'), 'trace_events', ['createTracing']]);
  } catch {} // it is not in every Node
  const file = await fs.promises.open(process.argv[1]);
  taken.push([Object.getPrototypeOf(file), 'FileHandle', ['chmod', 'chown', 'utimes']]); // these take a file that was opened to be read
  await file.close();
  // The pid that this sends signals to is what its memory held before, until it has a process.
  taken.push([Object.getPrototypeOf(new child.ChildProcess()._handle), 'ChildProcess', ['kill', 'spawn']]);
  hardenSockets();
  hardenPaths();

  for (const [object, name, functions] of taken) {
    for (const f of functions) {
      if (object && f in object) replace(object, f, refuse(`${name}.${f}`));
    }
  }
  replace(process, 'report', undefined); // it writes files
  module.syncBuiltinESMExports();
}

// hardenSockets leaves a job connections to other hosts, and datagrams that it sends
// and is answered.
function hardenSockets() {
  const pipe = prototype(net.connect('/none')); // a name that is as short as any system wants it
  taken.push([pipe, 'socket', ['bind', 'fchmod']]); // a bound one is a file, and deletes it
  for (const f of ['connect', 'listen']) replace(pipe, f, noAccess); // such as to a container engine's
  const tcp = prototype(net.connect(1, '127.0.0.1')); // it is destroyed before it connects
  for (const f of ['bind', 'bind6', 'listen']) replace(tcp, f, noAccess);
  for (const f of ['connect', 'connect6']) replace(tcp, f, guard(tcp[f], noAccess));

  const socket = dgram.createSocket('udp4');
  const { handle } = Object.getOwnPropertySymbols(socket).map(key => socket[key]).find(state => state?.handle);
  const udp = Object.getPrototypeOf(handle);
  socket.close();
  const { apply } = Reflect;
  for (const f of ['bind', 'bind6']) {
    const bind = udp[f];
    replace(udp, f, function (address, port, flags) {
      return port === 0 ? apply(bind, this, [address, 0, flags]) : noAccess(); // 0 is one that the system chooses
    });
  }
}

function prototype(socket) {
  const handle = socket._handle;
  socket.on('error', () => {}).destroy();
  return Object.getPrototypeOf(handle);
}

// hardenPaths keeps from a job which files there are outside of what it may read.
function hardenPaths() {
  const { realpathSync } = fs;
  const { resolve, isAbsolute } = path;
  const has = process.permission.has.bind(process.permission);
  const readable = name => has('fs.read', resolve(name));
  const real = (name, options) => {
    const whole = resolve(typeof name === 'string' ? name : name instanceof Uint8Array ? `${Buffer.from(name)}` : fileURLToPath(name));
    if (!has('fs.read', whole)) throw denied('Access to this API has been restricted');
    return realpathSync(whole, options);
  };
  replace(fs, 'realpathSync', Object.assign(real, { native: realpathSync.native }));

  const { _stat: kind } = module;
  if (kind) { // Node asks it about each file that may be a module, and does so for whoever calls it
    const guarded = name => (readable(name) ? kind(name) : -os.constants.errno.ENOENT);
    module._stat = guarded;
    replace(module, '_stat', guarded);
  }
  const find = module._findPath;
  replace(module, '_findPath', (request, folders, isMain) => {
    const name = `${request}`;
    if (isAbsolute(name)) {
      if (!readable(name)) throw denied('Access to this API has been restricted');
      return find(name, folders, isMain);
    }
    const allowed = [];
    for (let i = 0; i < folders?.length; i++) {
      const folder = `${folders[i]}`;
      if (readable(resolve(folder, name))) allowed[allowed.length] = folder;
    }
    return allowed.length > 0 && find(name, allowed, isMain);
  });
}

function replace(object, name, value) {
  Object.defineProperty(object, name, { value, writable: false, configurable: false });
}
