// host executes runs with OpenFn's runtime, one at a time: it speaks the
// protocol of docs/engine-protocol.md over stdin and stdout.
//
//   node host.cjs LOADER
//   node host.cjs RUNTIME LOGGER
//
// where LOADER is the path of what loads a bundle of both modules, @openfn/runtime and
// @openfn/logger, and the others are those of the modules themselves.
//
// All files of this folder are one when they are executed, and export nothing: whoever could import
// one of them would have its functions.

import { send } from './wire.mjs';
import { execute } from './execution.mjs';
import { harden } from './harden.mjs';
import { forbid } from './own.mjs';

// Node's functions are taken here and in the other files before any other code can change them; an import would
// look for them anew in each call, and copy all that the module has.
const { createRequire } = process.getBuiltinModule('module');
const { pathToFileURL } = process.getBuiltinModule('url');

const load = path => import(pathToFileURL(path).href);

serve();

async function serve() {
  const [runtime, logger] = await modules(...process.argv.slice(2));
  await harden();
  send({ type: 'ready', versions: { node: process.versions.node } });
  for await (const line of lines(process.stdin)) {
    const message = JSON.parse(line);
    switch (message.type) {
      case 'warm': // what cannot be loaded is an error of the run that needs it
        await Promise.allSettled(message.modules.map(load));
        break;
      case 'run': // not awaited: the end of stdin must be seen meanwhile
        forbid(message.run.options.own_port ?? 0);
        execute(message.run, runtime.default, logger.default).catch(broken).then(({ state, ...end }) => send({ type: 'end', ...end }, { state }));
        break;
    }
  }
  process.exit(0);
}

function modules(first, logger) {
  return logger ? Promise.all([first, logger].map(load)) : createRequire(first)(first).load();
}

// lines are those of a stream. Node's readline ends them at more characters than the worker does, and
// takes longer to load than all of this.
async function* lines(stream) {
  let begun = [];
  for await (const chunk of stream.setEncoding('utf8')) {
    const parts = chunk.split('\n');
    for (const part of parts.slice(0, -1)) {
      yield [...begun, part].join('');
      begun = [];
    }
    begun.push(parts.at(-1));
  }
}

// broken is the end of a run that this program itself could not follow.
function broken(error) {
  return { reason: 'crash', error_type: 'ExecutionError', error_message: `${error?.name}: the engine could not follow the run`, last: true };
}
