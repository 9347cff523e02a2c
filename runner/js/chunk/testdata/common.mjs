// common.mjs executes common.js with the real package in Node.
import fs from 'node:fs';
import vm from 'node:vm';
import { createRequire } from 'node:module';

const [file, home] = process.argv.slice(2);
for (const level of Object.keys(console)) console[level] = () => {};
const lines = await vm.runInThisContext(fs.readFileSync(file, 'utf8'))(createRequire(home + '/')('@openfn/language-common'), { Buffer });
process.stdout.write(JSON.stringify(lines));
