// inspect tells what modules export, and whether their bundle does the same. Without the modules, it tells what the bundle
// exports, and whether there is something under each name.
//
//   arguments  a JSON object: entries, load, cache
//   answer     a JSON array in one line, an object for each module: exports, error, differs; and with cache, if there is
//              a bundle, its code cache as cache.mjs has it
//
// It runs what packages do as they are loaded.

import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { entries, load, cache } = JSON.parse(process.argv[2]);

const answers = [];
for (const entry of entries) {
  try {
    const module = await import(pathToFileURL(entry).href);
    answers.push({ exports: Object.keys(module), module });
  } catch (error) {
    answers.push({ error: `${error?.message ?? error}` });
  }
}

let bundled = [];
let failure, missing;
try {
  if (load) {
    const bundle = createRequire(load)(load);
    bundled = bundle.load();
    if (cache) missing = bundle.missingCache();
  }
  if (!entries.length) for (const module of bundled) answers.push({ exports: Object.keys(module) });
} catch (error) {
  failure = `${error?.message ?? error}`;
}

const valueOf = (module, name) => module?.[name === 'module.exports' ? 'default' : name]; // a name that later versions of Node add

for (const [i, answer] of answers.entries()) {
  const isOther = answer.module
    ? name => typeof valueOf(answer.module, name) !== typeof valueOf(bundled[i], name)
    : name => bundled[i][name] === undefined;
  const other = answer.exports?.find(isOther);
  if (failure) answer.differs = failure;
  else if (other !== undefined) answer.differs = `${other} is something else`;
  delete answer.module;
}
const text = Buffer.concat([Buffer.from(`${JSON.stringify(answers)}\n`), ...(missing ? [Buffer.from(`${missing.name}\n`), missing.data] : [])]);
for (let sent = 0; sent < text.length; ) sent += writeSync(3, text, sent);
process.exit(0);
