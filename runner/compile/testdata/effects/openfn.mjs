// Compiles jobs, one a line of the file named as {body}, with OpenFn's compiler, which lies in the node_modules of
// the folder named first, and prints a line of JSON for each: {code} or {error}.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const { default: compile } = await import(pathToFileURL(process.argv[2] + '/node_modules/@openfn/compiler/dist/index.js'));
const quiet = new Proxy({}, { get: () => () => {} });
const print = line => process.stdout.write(line + '\n');
for (const name of ['log', 'time', 'timeEnd', 'warn']) console[name] = () => {};

const adaptors = [{ name: '@openfn/language-test', exports: JSON.parse(process.argv[4]), exportAll: true }];
for (const line of readFileSync(process.argv[3], 'utf8').split('\n')) {
  if (!line) continue;
  try {
    const { code } = compile(JSON.parse(line).body, { name: 'a', logger: quiet, 'add-imports': { adaptors } });
    print(JSON.stringify({ code }));
  } catch (error) {
    print(JSON.stringify({ error: error.message }));
  }
}
