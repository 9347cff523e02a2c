// buffer is the package's, with base64url and with what the web has.
const made = require('buffer/');
const { Buffer: Own } = made;
const { toString, write } = Own.prototype;
const { from, byteLength, isEncoding } = Own;
const isURL = encoding => typeof encoding === 'string' && encoding.toLowerCase() === 'base64url';
const plain = encoding => (isURL(encoding) ? 'base64' : encoding); // whose decoder reads both
const define = (object, name, value) => Object.defineProperty(object, name, { value, writable: true, configurable: true });

define(Own.prototype, 'toString', function (encoding, ...range) {
  const text = toString.call(this, plain(encoding), ...range);
  return isURL(encoding) ? text.replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '') : text;
});
define(Own.prototype, 'write', function (...args) { return write.apply(this, args.map(plain)); });
define(Own, 'from', (value, encoding, ...rest) => from(value, plain(encoding), ...rest));
define(Own, 'byteLength', (value, encoding) => byteLength(value, plain(encoding)));
define(Own, 'isEncoding', encoding => isURL(encoding) || isEncoding(encoding));
for (const name of ['Blob', 'File', 'atob', 'btoa']) Object.defineProperty(made, name, { configurable: true, enumerable: true, get: () => host[name] });
module.exports = made;
