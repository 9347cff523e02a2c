// common.mjs executes one of the files beside it with a real package in Node.
import fs from 'node:fs';
import vm from 'node:vm';
import { createRequire } from 'node:module';

const [file, home, name, argument] = process.argv.slice(2);
for (const level of Object.keys(console)) console[level] = () => {};
const require = createRequire(home + '/');
const lines = await vm.runInThisContext(fs.readFileSync(file, 'utf8'))(require(name), { require, Buffer, argument });
fs.writeSync(1, JSON.stringify(lines));
process.exit();
