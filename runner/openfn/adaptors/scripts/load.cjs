// load evaluates the bundle beside it, with V8's code cache where there is one
// that fits this Node and its flags. This process may not write, so one that is
// missing is not made here; see cache.mjs.

'use strict';

const { readFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { join } = require('node:path');
const vm = require('node:vm');
const { cachedDataVersionTag } = require('node:v8');

const file = join(__dirname, 'bundle.js');
const cacheName = `bundle-${process.version}-${process.arch}-${cachedDataVersionTag().toString(16)}.cache`;

let script, cached, modules;

// load returns the namespaces of the bundle's modules, which import what they
// only know at run time from here. A second call returns the same.
exports.load = () => (modules ??= evaluate());

function evaluate() {
  let cachedData;
  try {
    cachedData = readFileSync(join(__dirname, cacheName));
  } catch {} // there is none
  script = new vm.Script(readFileSync(file, 'latin1'), { // the bundle is ASCII
    filename: file,
    cachedData,
  });
  cached = cachedData !== undefined && !script.cachedDataRejected;
  return script.runInThisContext()(createRequire(file), __dirname, name => import(name));
}

// missingCache returns the name and the data of the cache that load would have
// used, after load; undefined if it has.
exports.missingCache = () => (cached ? undefined : { name: cacheName, data: script.createCachedData() });
