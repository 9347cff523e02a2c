// own keeps jobs from the worker's own port: whoever may ask there may pause it, or
// end the runs of others. What a job can change of Node's must not change the answer.

import { send } from './wire.mjs';

const { apply } = Reflect;
const { BlockList, SocketAddress, isIPv6 } = process.getBuiltinModule('net');
const { networkInterfaces } = process.getBuiltinModule('os');
const machine = new BlockList();
machine.addSubnet('127.0.0.0', 8);
machine.addSubnet('0.0.0.0', 8); // stands for this machine, as :: does
machine.addAddress('::', 'ipv6');
machine.addAddress('::1', 'ipv6');
const native = machine[Object.getOwnPropertySymbols(machine).find(key => typeof machine[key]?.check === 'function')];
for (const part of [BlockList.prototype, Object.getPrototypeOf(native), SocketAddress, SocketAddress.prototype]) Object.freeze(part);

let ownPort = 0; // 0 for none
let told = false;

// forbid says at which port the worker listens. It is called for each run. The first port stays: a job can
// put a message of its own where those of the worker are read.
export function forbid(port) {
  if (ownPort === 0) ownPort = port;
  told = false;
  if (ownPort === 0) return;
  const found = networkInterfaces();
  for (const name in found) {
    for (let i = 0; i < found[name].length; i++) {
      const { address, family } = found[name][i];
      machine.addAddress(address, family === 'IPv6' ? 'ipv6' : 'ipv4');
    }
  }
}

// guard returns a connect of a TCP handle that refuses the worker.
export function guard(connect, refuse) {
  return function (request, address, port) {
    if (typeof address !== 'string' || typeof port !== 'number') return refuse();
    if (ownPort === 0 || (port & 0xffff) !== ownPort || !isOfThisMachine(address)) return apply(connect, this, [request, address, port]);
    if (!told) send({ type: 'log', level: 'warn', source: 'R/T', message: ['Connecting to the worker itself is not allowed'] });
    told = true;
    return refuse();
  };
}

// isOfThisMachine is true as well for what is no address.
function isOfThisMachine(address) {
  try {
    return machine.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
  } catch {
    return true;
  }
}
