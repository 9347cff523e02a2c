// missing stands in for a builtin that is not here. It can be loaded, since many packages load what they never use; what
// is called of it says so.
const name = module.id.replace('node:', '');
const error = require('node:_missing');
const missing = of => {
  const fail = () => { throw error(`${name}.${of}`); };
  return new Proxy(function () {}, { apply: fail, construct: fail });
};
const made = {};
module.exports = new Proxy(made, {
  get(_, of) {
    if (typeof of === 'symbol' || of === '__esModule' || of === 'then') return undefined;
    return (made[of] ??= missing(of));
  },
});
