// _received words what is wrong with an argument, as Node does.
function received(value) {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'function') return 'function ' + value.name;
  if (typeof value === 'object') return value.constructor?.name ? `an instance of ${value.constructor.name}` : '[Object: null prototype] {}';
  const text = typeof value === 'string' ? `'${value.length > 28 ? value.slice(0, 25) + '...' : value}'` : typeof value === 'bigint' ? value + 'n' : String(value);
  return `type ${typeof value} (${text})`;
}
const coded = (error, code) => Object.assign(error, { code });

module.exports = {
  received,
  wrongType: (name, wanted, value) => coded(new TypeError(`The ${name.includes(' ') ? name : `"${name}" argument`} must be ${wanted}. Received ${received(value)}`), 'ERR_INVALID_ARG_TYPE'),
  unknownEncoding: encoding => coded(new TypeError(`Unknown encoding: ${encoding}`), 'ERR_UNKNOWN_ENCODING'),
};
