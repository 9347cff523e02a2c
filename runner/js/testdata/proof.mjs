// proof.mjs executes proof.js with the real package, in the way in which OpenFn's runtime does: the code of jobs is in a
// context of its own, the adaptor's is not.
import fs from 'node:fs';
import vm from 'node:vm';
import { createRequire } from 'node:module';

process.on('unhandledRejection', () => {}); // some uses forget what they began

const [proof, home, names, seed, count] = process.argv.slice(2);
const said = [];
for (const level of Object.keys(console)) console[level] = () => {};
console.log = (...args) => {
  if (args.length > 0 && !(args.length === 1 && args[0] === null)) said.push(JSON.stringify(args));
};
const common = createRequire(home + '/')('@openfn/language-common');
const context = vm.createContext({}, { codeGeneration: { strings: false, wasm: false } });
const prove = new vm.Script(fs.readFileSync(proof, 'utf8'), { filename: 'job' }).runInContext(context);
const { lines, paths } = await prove(common, names.split(','), Number(seed), Number(count));
process.stdout.write(JSON.stringify({ lines, paths, said, exports: Object.keys(common) }));
