// _missing makes the error of what nothing stands in for, and tells Go of it: whoever needs that is for Node.
module.exports = what => {
  host.call('missing', what);
  return Object.assign(new Error(`${what} of Node is not here`), { code: 'ERR_NOT_BUILT_IN' });
};
