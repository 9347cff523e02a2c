// cache makes the code caches of bundles that are missing, for a Node that was
// started like this one. It has no need to write: what it has made is its answer.
//
//   arguments  the paths of the load.cjs of bundles
//   answer     for each cache a line with a JSON object: index, name, size; then
//              its bytes

import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

function send(bytes) {
  for (let sent = 0; sent < bytes.length; ) sent += writeSync(3, bytes, sent);
}

// All are loaded before the first cache is made, for a bundle may compile more of
// itself when the next one is loaded.
const bundles = process.argv.slice(2).map(path => {
  try {
    const bundle = require(path);
    bundle.load(name => import(name));
    return bundle;
  } catch {
    return undefined; // it fails where it is used
  }
});
bundles.forEach((bundle, index) => {
  const missing = bundle?.missingCache();
  if (!missing) return;
  send(Buffer.from(`${JSON.stringify({ index, name: missing.name, size: missing.data.length })}\n`));
  send(missing.data);
});
process.exit(0);
