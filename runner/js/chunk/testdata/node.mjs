// node.mjs executes a function from its input with a real package in Node.
import fs from 'node:fs';
import vm from 'node:vm';
import { createRequire } from 'node:module';

const [home, name, argument] = process.argv.slice(2);
for (const level of Object.keys(console)) console[level] = () => {};
const require = createRequire(home + '/');
const lines = await vm.runInThisContext(fs.readFileSync(0, 'utf8'))(require(name), { require, Buffer, argument });
fs.writeSync(1, JSON.stringify(lines));
process.exit();
