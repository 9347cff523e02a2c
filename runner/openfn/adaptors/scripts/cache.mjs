// cache makes the code cache of a bundle, for a Node that was started like this one. It has
// no need to write: what it has made is its answer.
//
//   arguments  the path of the load.cjs of the bundle
//   answer     nothing if there is a cache, or the bundle cannot be loaded; else the name of
//              the file and, on the next line, its bytes

import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';

function made() {
  try {
    const bundle = createRequire(import.meta.url)(process.argv[2]);
    bundle.load();
    return bundle.missingCache();
  } catch {
    return undefined; // it fails where it is used
  }
}

const missing = made();
if (missing) {
  const bytes = Buffer.concat([Buffer.from(`${missing.name}\n`), missing.data]);
  for (let sent = 0; sent < bytes.length; ) sent += writeSync(3, bytes, sent);
}
process.exit(0);
