(function (require, __phx_here, __phx_import) {
const __phx_placeOf = file => {
  const filename = require('node:path').join(__phx_here, /*toRoot*/, file);
  const url = require('node:url').pathToFileURL(filename).href;
  const resolve = name => require('node:url').pathToFileURL(require('node:module').createRequire(filename).resolve(name)).href;
  return { dirname: require('node:path').dirname(filename), filename, url, resolve };
};
const __phx_later = (load, keep) => new Proxy({}, { get: (_, name) => {
  const loaded = load();
  keep(loaded);
  return loaded[name];
} });
const __phx_commonjs = (function (module) {
var exports = module.exports;
/*commonjs*/
return module.exports;
})({ exports: {} });
return (function (require, module) {
"use strict";
var exports = module.exports;
/*modern*/
return [/*modules*/];
})(name => name.startsWith("phx:") ? __phx_commonjs[name.slice(4)]() : require(name), { exports: {} });
})
