// harden takes from the process what Node's permission model leaves to whoever
// gets hold of it: ways to other processes, the worker's among them, and to files
// by way of V8, of links and sockets in the file system, and of another working
// folder.

import fs from 'node:fs';
import module from 'node:module';
import net from 'node:net';
import os from 'node:os';
import v8 from 'node:v8';

const taken = [
  [process, 'process', [
    'kill', '_kill', '_debugProcess', '_debugEnd', '_startProfilerIdleNotifier', 'binding', '_linkedBinding', 'dlopen', 'loadEnvFile',
    'setuid', 'setgid', 'seteuid', 'setegid', 'setgroups', 'initgroups', 'chdir', 'execve',
  ]],
  [v8, 'v8', ['setFlagsFromString', 'setHeapSnapshotNearHeapLimit', 'takeCoverage', 'stopCoverage']], // some flags write files
  [os, 'os', ['setPriority']],
  [fs, 'fs', ['symlink', 'symlinkSync']], // what leads through a link is judged by its text
  [fs.promises, 'fs.promises', ['symlink']],
];

const refuse = name => () => {
  throw Object.assign(new Error(`${name} is not allowed`), { code: 'ERR_ACCESS_DENIED' });
};

export async function harden() {
  const tracing = await import('node:trace_events').catch(() => undefined); // not in every Node
  if (tracing) taken.push([tracing.default, 'trace_events', ['createTracing']]);
  const file = await fs.promises.open(process.argv[1]);
  taken.push([Object.getPrototypeOf(file), 'FileHandle', ['chmod', 'chown', 'utimes']]); // these take a file that was opened to be read
  await file.close();
  const socket = net.connect('/none').on('error', () => {}); // a name that is as short as any system wants it
  taken.push([Object.getPrototypeOf(socket._handle), 'socket', ['bind', 'fchmod']]); // a bound one is a file, and deletes it
  socket.destroy();

  for (const [object, name, functions] of taken) {
    for (const f of functions) {
      if (f in object) replace(object, f, refuse(`${name}.${f}`));
    }
  }
  replace(process, 'report', undefined); // it writes files
  module.syncBuiltinESMExports();
}

function replace(object, name, value) {
  Object.defineProperty(object, name, { value, writable: false, configurable: false });
}
