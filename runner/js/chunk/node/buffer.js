// buffer is the package's, with what the web has.
const made = require('buffer/');
for (const name of ['Blob', 'File', 'atob', 'btoa']) Object.defineProperty(made, name, { configurable: true, enumerable: true, get: () => host[name] });
module.exports = made;
