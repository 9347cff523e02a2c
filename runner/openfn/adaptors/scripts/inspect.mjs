// inspect tells what modules export, and whether their bundle does the same.
//
//   arguments  a JSON object: entries, load
//   answer     a JSON array, an object for each entry: exports, error, differs
//
// It runs what packages do as they are loaded.

import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { entries, load } = JSON.parse(process.argv[2]);

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
let failure;
try {
  if (load) bundled = createRequire(load)(load).load();
} catch (error) {
  failure = `${error?.message ?? error}`;
}

const valueOf = (module, name) => module?.[name === 'module.exports' ? 'default' : name]; // a name that later versions of Node add

for (const [i, answer] of answers.entries()) {
  const other = answer.exports?.find(name => typeof valueOf(answer.module, name) !== typeof valueOf(bundled[i], name));
  if (failure) answer.differs = failure;
  else if (other !== undefined) answer.differs = `${other} is something else`;
  delete answer.module;
}
const text = Buffer.from(JSON.stringify(answers));
for (let sent = 0; sent < text.length; ) sent += writeSync(3, text, sent);
process.exit(0);
