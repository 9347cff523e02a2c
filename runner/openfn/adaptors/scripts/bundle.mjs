// bundle makes one file of modules and all that they depend on, with esbuild.
//
//   arguments  a JSON object: esbuild, root, out, toRoot, entries, trusted
//   answer     a JSON object: reason, if the modules cannot be bundled
//
// The file is an expression: a function of require and __dirname that returns an
// array with the namespace of each entry. ES modules are strict code and CommonJS
// modules mostly are not; so there are two parts in it. Names of files in it are
// relative to root, the folder that npm installed into, where those lie that
// stay outside.

import { existsSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join, relative, sep } from 'node:path';

const { esbuild: esbuildDir, root, out, toRoot, entries, trusted } = JSON.parse(process.argv[2]);
const esbuild = createRequire(join(esbuildDir, 'package.json'))('esbuild');

class Unbundleable extends Error {}

// What a file loads is not known if it does one of these.
const unknowable = ['unsupported-require-call', 'unsupported-dynamic-import', 'indirect-require', 'require-resolve-not-external'];

// outside are the folders of packages that are left to Node.
const outside = new Set();
const commonJS = []; // the paths of those that ES modules import

const slashes = path => path.split(sep).join('/');
const fromRoot = path => slashes(relative(root, path));
const packageOf = path => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(slashes(path))?.[0];

// isCommonJS tells how Node takes a file.
function isCommonJS(path) {
  const extension = extname(path);
  if (extension !== '.js') return extension === '.cjs' || extension === '.node';
  for (let dir = dirname(path); dir.startsWith(root); dir = dirname(dir)) {
    const file = join(dir, 'package.json');
    if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')).type !== 'module';
  }
  return true;
}

// resolution decides where each import leads.
const resolution = strict => ({
  name: 'resolution',
  setup(build) {
    build.onResolve({ filter: /.*/ }, async ({ path, kind, importer, resolveDir, namespace, pluginData }) => {
      if (pluginData?.seen || namespace === 'shim') return undefined;
      const found = await build.resolve(path, { kind, importer, resolveDir, namespace, pluginData: { seen: true } });
      if (found.errors.length > 0) return { path, external: true }; // it may be optional; if not, it fails as without a bundle
      if (found.external || found.namespace !== 'file') return found;
      // Jobs may read the bundle, and nothing that is not below root.
      if (!found.path.startsWith(root + sep)) throw new Unbundleable(`${importer} imports ${found.path}, which is outside of its folder`);
      if (strict && isCommonJS(found.path)) {
        if (!commonJS.includes(found.path)) commonJS.push(found.path);
        return { path: `${commonJS.indexOf(found.path)}`, namespace: 'shim', sideEffects: found.sideEffects };
      }
      if (extname(found.path) === '.node' || outside.has(packageOf(fromRoot(found.path)))) {
        if (!isCommonJS(found.path)) throw new Unbundleable(`${fromRoot(found.path)} is an ES module of a package that cannot be bundled`);
        return { path: `${toRoot}/${fromRoot(found.path)}`, external: true };
      }
      return found;
    });
    build.onLoad({ filter: /.*/, namespace: 'shim' }, ({ path }) => ({ contents: `module.exports = __phx_commonjs[${path}]();` }));
  },
});

// places lets files find those beside them, where npm put them.
const places = {
  name: 'places',
  setup(build) {
    build.onLoad({ filter: /\.[cm]?js$/, namespace: 'file' }, ({ path }) => {
      let text = readFileSync(path, 'utf8').replace(/^#!.*/, '');
      // What OpenFn's runtime imports is not known beforehand, so that is handed in.
      if (trusted && entries.includes(path)) text = text.replace(/\bimport\(/g, '__phx_import(');
      // Code in a string that imports, a habit of compilers to CommonJS.
      const warnings = /\b(?:Function|eval)\s*\([^)]*\bimport\s*\(/.test(text) ? [{ id: unknowable[0], location: { file: fromRoot(path) } }] : [];
      if (!/\b(?:__dirname|__filename|import\.meta)\b/.test(text)) return { contents: text, warnings };
      const directive = /^(?:\s|\/\/.*|\/\*[^]*?\*\/)*(?:"use strict"|'use strict')/.test(text) ? '"use strict";' : '';
      return { contents: `${directive}var __phx_place = __phx_placeOf(${JSON.stringify(fromRoot(path))});${text}`, warnings };
    });
  },
};

async function build(strict, options) {
  const result = await esbuild.build({
    absWorkingDir: root,
    bundle: true,
    write: false,
    metafile: true,
    outfile: join(root, 'bundle.js'),
    format: 'cjs',
    platform: 'node',
    target: `node${process.versions.node}`,
    conditions: [], // not "module", which Node does not know
    mainFields: ['main'],
    resolveExtensions: ['.js', '.json', '.node'],
    loader: { '.cjs': 'js', '.mjs': 'js' },
    supported: { 'dynamic-import': false }, // Node 20 has none in a script that came from a code cache
    define: { __dirname: '__phx_place.dirname', __filename: '__phx_place.filename', 'import.meta': '__phx_place' },
    charset: 'ascii',
    legalComments: 'none', // the licences lie beside the files of npm
    logLevel: 'silent',
    logOverride: Object.fromEntries(unknowable.map(id => [id, 'warning'])),
    plugins: [resolution(strict), places],
    ...options,
  });
  return { code: result.outputFiles[0].text, inputs: result.metafile.inputs, warnings: result.warnings };
}

const offenders = ({ warnings }) => trusted ? [] : [...new Set(warnings.filter(w => unknowable.includes(w.id)).map(w => w.location.file))];

// dependencies are the folders of what a package says that it depends on.
function dependencies(dir) {
  const file = join(root, dir, 'package.json');
  if (!existsSync(file)) return [];
  const { dependencies, optionalDependencies, peerDependencies } = JSON.parse(readFileSync(file, 'utf8'));
  return Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }).map(name => {
    for (let at = dir; at; at = at.replace(/\/?node_modules\/(?:@[^/]+\/)?[^/]+$/, '')) {
      const nested = `${at}/node_modules/${name}`;
      if (existsSync(join(root, nested))) return nested;
    }
    return `node_modules/${name}`;
  });
}

// leaveOut puts the packages of files outside, with all they depend on: no
// module may be loaded twice, once by Node and once from the bundle.
function leaveOut(files, inputs) {
  const found = files.map(packageOf);
  for (let dir; (dir = found.pop()); ) {
    if (outside.has(dir)) continue;
    outside.add(dir);
    found.push(...dependencies(dir));
    for (const [path, { imports }] of Object.entries(inputs)) {
      if (packageOf(path) === dir) found.push(...imports.map(i => packageOf(i.path)).filter(Boolean));
    }
  }
  const needed = entries.map(fromRoot).find(path => outside.has(packageOf(path)));
  if (needed) throw new Unbundleable(`${files.join(', ')} loads what is not known beforehand`);
}

async function bundle() {
  const entry = join(out, '..', 'entry.mjs');
  writeFileSync(entry, entries.map((path, i) => `export * as m${i} from ${JSON.stringify(path)};`).join('\n'));
  const modern = await build(true, { entryPoints: [entry] });
  const bad = offenders(modern);
  if (bad.length > 0) throw new Unbundleable(`${bad.join(', ')} loads what is not known beforehand`);
  for (;;) {
    const contents = `module.exports = [${commonJS.map(path => `() => require(${JSON.stringify(path)})`).join(',\n')}];`;
    const old = await build(false, { stdin: { contents, resolveDir: root, sourcefile: 'commonjs.cjs' } });
    const files = offenders(old);
    if (files.length === 0) return compose(modern.code, old.code);
    leaveOut(files, old.inputs);
  }
}

const compose = (modern, old) => `(function (require, __phx_here, __phx_import) {
const __phx_placeOf = file => {
  const filename = require('node:path').join(__phx_here, ${JSON.stringify(toRoot)}, file);
  const url = require('node:url').pathToFileURL(filename).href;
  const resolve = name => require('node:url').pathToFileURL(require('node:module').createRequire(filename).resolve(name)).href;
  return { dirname: require('node:path').dirname(filename), filename, url, resolve };
};
const __phx_commonjs = (function (module) {
var exports = module.exports;
${old}
return module.exports;
})({ exports: {} });
return (function (module) {
"use strict";
var exports = module.exports;
${modern}
return [${entries.map((_, i) => `module.exports.m${i}`).join(', ')}];
})({ exports: {} });
})
`;

const answer = {};
try {
  writeFileSync(out, await bundle());
} catch (error) {
  // esbuild's own errors are about the text of a module; others are ours.
  if (!(error instanceof Unbundleable) && !Array.isArray(error.errors)) throw error;
  answer.reason = error.errors?.map(e => `${e.location?.file ?? ''}: ${e.text}`).join('; ') ?? error.message;
}
writeSync(3, JSON.stringify(answer));
process.exit(0);
