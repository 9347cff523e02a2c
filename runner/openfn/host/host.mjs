// host executes runs with OpenFn's runtime, one at a time: it speaks the
// protocol of docs/engine-protocol.md over stdin and stdout.
//
//   node host.mjs RUNTIME LOGGER
//
// where the arguments are the paths of the modules @openfn/runtime and
// @openfn/logger.

import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { send } from './wire.mjs';
import { execute } from './execution.mjs';
import { harden } from './harden.mjs';
import { forbid } from './own.mjs';

const [runtime, logger] = await Promise.all(
  process.argv.slice(2, 4).map(path => import(pathToFileURL(path).href))
);
await harden();
send({ type: 'ready', versions: { node: process.versions.node } });

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  switch (message.type) {
    case 'warm': // what cannot be loaded is an error of the run that needs it
      await Promise.allSettled(message.modules.map(path => import(pathToFileURL(path).href)));
      break;
    case 'run': // not awaited: the end of stdin must be seen meanwhile
      forbid(message.run.options.own_port ?? 0);
      execute(message.run, runtime.default, logger.default).catch(broken).then(({ state, ...end }) => send({ type: 'end', ...end }, { state }));
      break;
  }
}
process.exit(0);

// broken is the end of a run that this program itself could not follow.
function broken(error) {
  return { reason: 'crash', error_type: 'ExecutionError', error_message: `${error?.name}: the engine could not follow the run`, last: true };
}
