// arborist tells which packages npm would put where: it makes trees with npm's own library,
// from the folder of the npm that is in the path.
//
//   arguments  the folder of npm, a folder for its cache, how long a tree may take in ms
//   input      a JSON array of objects: registry, name, wanted
//   output     a JSON array, for each an object: packages, by path, or code

import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [npm, cache, patience] = process.argv.slice(2);
const { Arborist } = createRequire(join(npm, 'package.json'))('@npmcli/arborist');

async function answer({ registry, name, wanted }) {
  const path = mkdtempSync(join(cache, 'tree-'));
  let timer;
  try {
    const arborist = new Arborist({ path, registry, cache: join(cache, 'npm'), fetchRetries: 0, save: true }); // as the program has it
    // It goes round in circles for some trees.
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(Object.assign(new Error('it does not end'), { code: 'ENDLESS' })), Number(patience));
    });
    const tree = await Promise.race([arborist.buildIdealTree({ add: [`${name}@${wanted}`] }), late]);
    const packages = {};
    for (const node of tree.inventory.values()) {
      if (node.isProjectRoot || node.inert) continue;
      const { os, cpu, libc } = node.package;
      packages[node.location] = { name: node.packageName, version: node.version, optional: node.optional, os, cpu, libc, link: node.isLink };
    }
    return { packages };
  } catch (error) {
    return { code: error.code ?? String(error), message: error.message };
  } finally {
    clearTimeout(timer);
  }
}

const answers = await Promise.all(JSON.parse(readFileSync(0, 'utf8')).map(answer));
writeFileSync(1, JSON.stringify(answers));
process.exit(0);
