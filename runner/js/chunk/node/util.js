// util is the package's, with what is newer.
const made = require('util/');
for (const name of ['TextEncoder', 'TextDecoder']) Object.defineProperty(made, name, { configurable: true, enumerable: true, get: () => host[name] });
// The package's puts another prototype in the place of what a class has already.
made.inherits = (constructor, base) => {
  Object.defineProperty(constructor, 'super_', { value: base, writable: true, configurable: true });
  Object.setPrototypeOf(constructor.prototype, base.prototype);
};
made.stripVTControlCharacters ??= text => text.replace(/[\u001B\u009B][[\]()#;?]*(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PR-TZcf-nq-uy=><~]/g, '');
made.toUSVString ??= text => String(text).toWellFormed();
made.isDeepStrictEqual ??= (a, b) => {
  try {
    require('assert/').deepStrictEqual(a, b);
    return true;
  } catch {
    return false;
  }
};
module.exports = made;
