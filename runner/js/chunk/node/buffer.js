// buffer is the package's, with what is newer: base64url, what the web has, and what Node makes of wrong arguments and of
// bytes that are no text.
const made = require('buffer/');
const { wrongType, unknownEncoding } = require('node:_received');
const { Buffer: Own } = made;
const { toString, write, equals, indexOf, lastIndexOf, copy, compare } = Own.prototype;
const { from, byteLength, isEncoding, concat, alloc, allocUnsafe, compare: compareTwo } = Own;
const isURL = encoding => typeof encoding === 'string' && encoding.toLowerCase() === 'base64url';
const plain = encoding => (isURL(encoding) ? 'base64' : encoding); // whose decoder reads both
const define = (object, name, value) => Object.defineProperty(object, name, { value, writable: true, configurable: true });
const isBytes = value => value instanceof Uint8Array;
const asOwn = value => (isBytes(value) && !Own.isBuffer(value) ? from(value.buffer, value.byteOffset, value.byteLength) : value);
const known = encoding => {
  if (encoding !== undefined && !Own.isEncoding(encoding)) throw unknownEncoding(encoding);
  return plain(encoding);
};

// decode reads UTF-8: of each sequence that breaks off, one U+FFFD is left.
function decode(bytes) {
  let text = '', point = 0, left = 0, low = 0x80, high = 0xbf;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (left > 0 && (byte < low || byte > high)) {
      text += '\uFFFD';
      [left, low, high] = [0, 0x80, 0xbf];
    }
    if (left > 0) {
      point = (point << 6) | (byte & 0x3f);
      [low, high] = [0x80, 0xbf];
      if (--left === 0) text += String.fromCodePoint(point);
    } else if (byte < 0x80) {
      text += String.fromCharCode(byte);
    } else if (byte >= 0xc2 && byte <= 0xf4) {
      left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
      point = byte & (0x3f >> left);
      if (byte === 0xe0) low = 0xa0;
      if (byte === 0xed) high = 0x9f;
      if (byte === 0xf0) low = 0x90;
      if (byte === 0xf4) high = 0x8f;
    } else {
      text += '\uFFFD';
    }
  }
  return left > 0 ? text + '\uFFFD' : text;
}

const hex = text => text.slice(0, /^(?:[\da-f]{2})*/i.exec(text)[0].length);
const isHex = encoding => typeof encoding === 'string' && encoding.toLowerCase() === 'hex';

define(Own.prototype, 'toString', function (encoding, start, end) {
  const text = toString.call(this, known(encoding), start, end);
  if (isURL(encoding)) return text.replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
  if (!text.includes('\uFFFD') || !/^utf-?8$/i.test(encoding ?? 'utf8')) return text;
  return decode(this.subarray(Math.max(start | 0, 0), end === undefined ? undefined : Math.max(end | 0, 0)));
});
define(Own.prototype, 'write', function (text, ...args) {
  if (typeof text !== 'string') throw Object.assign(new TypeError('argument must be a string'), { code: 'ERR_INVALID_ARG_TYPE' });
  const encoding = args.find(one => typeof one === 'string');
  return write.call(this, isHex(encoding) ? hex(text) : text, ...args.map(one => (one === encoding ? known(one) : one)));
});
define(Own, 'from', (value, encoding, length) => {
  if (typeof value === 'string') {
    const as = typeof encoding === 'string' && encoding !== '' ? known(encoding) : 'utf8';
    return from(isHex(as) ? hex(value) : value, as);
  }
  if (typeof value === 'object' && value !== null) {
    const itself = value.valueOf?.();
    if (itself !== null && itself !== undefined && itself !== value && (typeof itself === 'string' || typeof itself === 'object')) return Own.from(itself, encoding, length);
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer || value.length !== undefined || value.buffer instanceof ArrayBuffer || (value.type === 'Buffer' && Array.isArray(value.data))) return from(value, encoding, length);
    if (typeof value[Symbol.toPrimitive] === 'function') {
      const primitive = value[Symbol.toPrimitive]('string');
      if (typeof primitive === 'string') return Own.from(primitive, encoding);
    }
  }
  throw wrongType('first argument', 'of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object', value);
});
define(Own, 'byteLength', (value, encoding) => {
  if (typeof value !== 'string' && !ArrayBuffer.isView(value) && !(value instanceof ArrayBuffer)) throw wrongType('string', 'of type string or an instance of Buffer or ArrayBuffer', value);
  return byteLength(value, plain(encoding));
});
define(Own, 'isEncoding', encoding => isURL(encoding) || (typeof encoding === 'string' && isEncoding(encoding)));
define(Own, 'concat', (list, length) => {
  if (!Array.isArray(list)) throw wrongType('list', 'an instance of Array', list);
  list.forEach((one, i) => { if (!isBytes(one)) throw wrongType(`list[${i}]`, 'an instance of Buffer or Uint8Array', one); });
  return concat(list, length);
});
for (const [name, make] of Object.entries({ alloc, allocUnsafe })) {
  define(Own, name, (size, ...rest) => {
    if (typeof size !== 'number') throw wrongType('size', 'of type number', size);
    if (!(size >= 0 && size <= made.kMaxLength)) throw Object.assign(new RangeError(`The value of "size" is out of range. It must be >= 0 && <= ${made.kMaxLength}. Received ${size}`), { code: 'ERR_OUT_OF_RANGE' });
    return make(size, ...rest);
  });
}
define(Own, 'compare', (one, other) => {
  if (!isBytes(one)) throw wrongType('buf1', 'an instance of Buffer or Uint8Array', one);
  if (!isBytes(other)) throw wrongType('buf2', 'an instance of Buffer or Uint8Array', other);
  return compareTwo(one, other);
});
// Any bytes will do where the package wants its own.
for (const [name, method, argument] of [['equals', equals, 'otherBuffer'], ['compare', compare, 'target'], ['copy', copy, 'target']]) {
  define(Own.prototype, name, function (other, ...rest) {
    if (!isBytes(other)) throw wrongType(argument, 'an instance of Buffer or Uint8Array', other);
    return method.call(this, asOwn(other), ...rest);
  });
}
for (const [name, method] of Object.entries({ indexOf, lastIndexOf })) {
  define(Own.prototype, name, function (value, at, encoding) {
    if (typeof value !== 'string' && typeof value !== 'number' && !isBytes(value)) throw wrongType('value', 'one of type number or string or an instance of Buffer or Uint8Array', value);
    return method.call(this, asOwn(value), typeof at === 'string' ? known(at) : at, known(encoding));
  });
}
define(Own.prototype, 'includes', function (...args) { return this.indexOf(...args) >= 0; });
for (const name of Object.getOwnPropertyNames(Own.prototype)) {
  const other = name.replace('BigUInt', 'BigUint');
  if (other !== name) define(Own.prototype, other, Own.prototype[name]);
}
define(Own, 'copyBytesFrom', (view, offset = 0, length = view.length - offset) => Own.from(view.slice(offset, offset + length).buffer));
made.kStringMaxLength = 536870888; // as Node 20's
made.constants = { MAX_LENGTH: made.kMaxLength, MAX_STRING_LENGTH: made.kStringMaxLength };
made.isAscii = bytes => asOwn(new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset, bytes.byteLength)).every(byte => byte < 0x80);
made.isUtf8 = bytes => Own.from(Own.from(bytes).toString()).equals(Own.from(bytes));
for (const name of ['Blob', 'File', 'atob', 'btoa']) Object.defineProperty(made, name, { configurable: true, enumerable: true, get: () => host[name] });
module.exports = made;
