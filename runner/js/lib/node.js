// node.js has the globals of Node that jobs use and QuickJS lacks: Buffer,
// TextEncoder and TextDecoder, atob and btoa, structuredClone, crypto.

(host, from) => {
  'use strict';

  const wrongType = (name, what) => from('host', new TypeError(`The "${name}" argument must be ${what}.`));

  // ---- Text and bytes

  function utf8(text) {
    text = String(text).toWellFormed();
    const bytes = [];
    for (const character of text) {
      const c = character.codePointAt(0);
      if (c < 0x80) bytes.push(c);
      else if (c < 0x800) bytes.push(0xc0 | (c >> 6), 0x80 | (c & 63));
      else if (c < 0x10000) bytes.push(0xe0 | (c >> 12), 0x80 | ((c >> 6) & 63), 0x80 | (c & 63));
      else bytes.push(0xf0 | (c >> 18), 0x80 | ((c >> 12) & 63), 0x80 | ((c >> 6) & 63), 0x80 | (c & 63));
    }
    return bytes;
  }

  // fromUTF8 reads bytes; one that is wrong becomes U+FFFD, or an error.
  function fromUTF8(bytes, fatal) {
    let text = '';
    for (let i = 0; i < bytes.length;) {
      const b = bytes[i];
      const more = b < 0x80 ? 0 : b >= 0xc2 && b < 0xe0 ? 1 : b >= 0xe0 && b < 0xf0 ? 2 : b >= 0xf0 && b < 0xf5 ? 3 : -1;
      let code = more < 1 ? b : b & (0x3f >> more);
      let taken = 1;
      let good = more >= 0;
      for (; good && taken <= more; taken++) {
        const next = bytes[i + taken];
        const low = taken > 1 ? 0x80 : b === 0xe0 ? 0xa0 : b === 0xf0 ? 0x90 : 0x80;
        const high = taken > 1 ? 0xbf : b === 0xed ? 0x9f : b === 0xf4 ? 0x8f : 0xbf;
        if (!(next >= low && next <= high)) good = false;
        else code = (code << 6) | (next & 0x3f);
        if (!good) break;
      }
      if (!good && fatal) throw from('host', new TypeError('The encoded data was not valid for encoding utf-8'));
      text += good ? String.fromCodePoint(code) : '\uFFFD';
      i += taken;
    }
    return text;
  }

  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const digits = {};
  for (let i = 0; i < 64; i++) digits[alphabet[i]] = i;
  digits['-'] = 62;
  digits['_'] = 63;

  function toBase64(bytes) {
    let text = '';
    for (let i = 0; i < bytes.length; i += 3) {
      const n = (bytes[i] << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
      text += alphabet[n >> 18] + alphabet[(n >> 12) & 63];
      text += i + 1 < bytes.length ? alphabet[(n >> 6) & 63] : '=';
      text += i + 2 < bytes.length ? alphabet[n & 63] : '=';
    }
    return text;
  }

  // fromBase64 skips what is no digit, as Buffer does.
  function fromBase64(text) {
    const bytes = [];
    let bits = 0;
    let held = 0;
    for (const c of text) {
      if (c === '=') break;
      const digit = digits[c];
      if (digit === undefined) continue;
      held = ((held << 6) | digit) & 0xffffff;
      bits += 6;
      if (bits >= 8) {
        bits -= 8;
        bytes.push((held >> bits) & 0xff);
      }
    }
    return bytes;
  }

  function atob(text) {
    text = String(text).replace(/[\t\n\f\r ]/g, '');
    if (text.length % 4 === 0) text = text.replace(/={1,2}$/, '');
    if (/[^A-Za-z0-9+/]/.test(text) || text.length % 4 === 1) {
      throw from('host', new Error('The string to be decoded is not correctly encoded.'));
    }
    return String.fromCharCode(...fromBase64(text));
  }

  function btoa(text) {
    const bytes = [];
    for (const c of String(text)) {
      if (c.length > 1 || c.charCodeAt(0) > 255) throw from('host', new Error('Invalid character'));
      bytes.push(c.charCodeAt(0));
    }
    return toBase64(bytes);
  }

  class TextEncoder {
    get encoding() { return 'utf-8'; }
    encode(text = '') { return new Uint8Array(utf8(text)); }
  }

  class TextDecoder {
    #fatal;
    #keepBOM;
    constructor(encoding = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      if (!/^utf-?8$/i.test(encoding)) throw from('host', new RangeError(`The "${encoding}" encoding is not supported`));
      this.#fatal = fatal;
      this.#keepBOM = ignoreBOM;
    }
    get encoding() { return 'utf-8'; }
    decode(input = new Uint8Array()) {
      const text = fromUTF8(bytesOf(input), this.#fatal);
      return !this.#keepBOM && text[0] === '\uFEFF' ? text.slice(1) : text;
    }
  }

  function bytesOf(input) {
    if (input instanceof ArrayBuffer) return new Uint8Array(input);
    if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
    throw wrongType('input', 'an instance of ArrayBuffer or ArrayBufferView');
  }

  // ---- Buffer

  const encoders = {
    utf8: utf8,
    hex: text => {
      const pairs = /^(?:[0-9a-f]{2})*/i.exec(text)[0];
      return Array.from({ length: pairs.length / 2 }, (_, i) => parseInt(pairs.substr(2 * i, 2), 16));
    },
    base64: fromBase64,
    base64url: fromBase64,
    latin1: text => Array.from({ length: text.length }, (_, i) => text.charCodeAt(i) & 255),
    utf16le: text => Array.from({ length: 2 * text.length }, (_, i) => (text.charCodeAt(i >> 1) >> (8 * (i & 1))) & 255),
  };
  encoders.ascii = encoders.binary = encoders.latin1;

  const joined = (bytes, write) => Array.from(bytes, write).join('');
  const decoders = {
    utf8: bytes => fromUTF8(bytes, false),
    hex: bytes => joined(bytes, b => b.toString(16).padStart(2, '0')),
    base64: toBase64,
    base64url: bytes => toBase64(bytes).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, ''),
    latin1: bytes => joined(bytes, b => String.fromCharCode(b)),
    ascii: bytes => joined(bytes, b => String.fromCharCode(b & 127)),
    utf16le: bytes => {
      let text = '';
      for (let i = 0; i + 1 < bytes.length; i += 2) text += String.fromCharCode(bytes[i] | (bytes[i + 1] << 8));
      return text;
    },
  };
  decoders.binary = decoders.latin1;

  function codec(table, encoding) {
    const name = String(encoding ?? 'utf8').toLowerCase().replace(/^utf-8$/, 'utf8').replace(/^(?:ucs-?2|utf-16le)$/, 'utf16le');
    if (!Object.hasOwn(table, name)) throw from('host', new TypeError(`Unknown encoding: ${encoding}`));
    return table[name];
  }

  // Only the functions below may construct one: `new Buffer` is refused, as it
  // is in OpenFn's engine, which takes that for an error of an adaptor.
  const permit = {};

  class Buffer extends Uint8Array {
    constructor(...args) {
      if (args[0] !== permit) {
        throw from('sandbox', new Error('Do not call Buffer() constructor directly. Use Buffer.from() instead.'));
      }
      super(...args.slice(1));
    }

    // What Uint8Array makes of a Buffer, as by map(), is a Uint8Array.
    static get [Symbol.species]() { return Uint8Array; }

    static from(value, encoding, length) {
      if (typeof value === 'string') return new Buffer(permit, codec(encoders, encoding)(value));
      if (value instanceof ArrayBuffer) return new Buffer(permit, value, encoding, length);
      if (value?.type === 'Buffer' && Array.isArray(value.data)) return new Buffer(permit, value.data);
      if (value === null || typeof value !== 'object') {
        throw wrongType('value', 'of type string or an instance of Buffer, ArrayBuffer, or Array');
      }
      return new Buffer(permit, Array.from(value));
    }

    static of(...bytes) { return new Buffer(permit, bytes); }

    static alloc(size, fill = 0, encoding = 'utf8') { return new Buffer(permit, size).fill(fill, encoding); }
    static allocUnsafe(size) { return new Buffer(permit, size); }
    static isBuffer(value) { return value instanceof Buffer; }
    static isEncoding(name) { return typeof name === 'string' && Object.hasOwn(encoders, name.toLowerCase().replace('-', '')); }
    static byteLength(value, encoding) {
      return typeof value === 'string' ? codec(encoders, encoding)(value).length : value.byteLength;
    }
    static compare(a, b) {
      for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
      return Math.sign(a.length - b.length);
    }
    static concat(list, length = list.reduce((sum, part) => sum + part.length, 0)) {
      const all = new Buffer(permit, length);
      let at = 0;
      for (const part of list) {
        if (at >= length) break;
        all.set(part.subarray(0, length - at), at);
        at += part.length;
      }
      return all;
    }

    toString(encoding, start = 0, end = this.length) {
      return codec(decoders, encoding)(new Uint8Array(this.buffer, this.byteOffset, this.length).subarray(start, end));
    }
    toJSON() { return { type: 'Buffer', data: Array.from(this) }; }
    equals(other) { return Buffer.compare(this, other) === 0; }
    compare(other) { return Buffer.compare(this, other); }
    subarray(start = 0, end = this.length) {
      const part = new Uint8Array(this.buffer, this.byteOffset, this.length).subarray(start, end);
      return new Buffer(permit, part.buffer, part.byteOffset, part.length);
    }
    slice(start, end) { return this.subarray(start, end); }
    write(text, offset = 0, encoding = 'utf8') {
      const bytes = codec(encoders, encoding)(text).slice(0, this.length - offset);
      this.set(bytes, offset);
      return bytes.length;
    }
    fill(value, encoding = 'utf8') {
      if (typeof value !== 'string') return super.fill(value);
      const bytes = codec(encoders, encoding)(value);
      for (let i = 0; i < this.length; i++) this[i] = bytes.length > 0 ? bytes[i % bytes.length] : 0;
      return this;
    }
    indexOf(value, from = 0, encoding = 'utf8') {
      if (typeof value === 'number') return super.indexOf(value, from);
      const wanted = typeof value === 'string' ? codec(encoders, encoding)(value) : value;
      for (let i = from; i + wanted.length <= this.length; i++) {
        let same = 0;
        while (same < wanted.length && this[i + same] === wanted[same]) same++;
        if (same === wanted.length) return i;
      }
      return -1;
    }
    includes(value, from, encoding) { return this.indexOf(value, from, encoding) >= 0; }
  }

  // ---- structuredClone

  function structuredClone(value) {
    const seen = new Map();
    const uncloneable = v => from('host', new Error(`${typeof v === 'symbol' ? v.toString() : String(v)} could not be cloned.`));
    const clone = v => {
      if (typeof v === 'function' || typeof v === 'symbol') throw uncloneable(v);
      if (v === null || typeof v !== 'object') return v;
      if (seen.has(v)) return seen.get(v);
      const keep = copy => { seen.set(v, copy); return copy; };
      if (Array.isArray(v)) {
        const copy = keep(new Array(v.length));
        for (const key of Object.keys(v)) copy[key] = clone(v[key]);
        return copy;
      }
      if (v instanceof Date) return keep(new Date(v.getTime()));
      if (v instanceof RegExp) return keep(new RegExp(v.source, v.flags));
      if (v instanceof Map) {
        const copy = keep(new Map());
        for (const [key, item] of v) copy.set(clone(key), clone(item));
        return copy;
      }
      if (v instanceof Set) {
        const copy = keep(new Set());
        for (const item of v) copy.add(clone(item));
        return copy;
      }
      if (v instanceof ArrayBuffer) return keep(v.slice(0));
      if (ArrayBuffer.isView(v)) return keep(v instanceof DataView ? new DataView(clone(v.buffer), v.byteOffset, v.byteLength) : Uint8Array.prototype.slice.call(v));
      if (v instanceof Error) {
        const copy = keep(new globalThis[/^(?:Eval|Range|Reference|Syntax|Type|URI)Error$/.test(v.name) ? v.name : 'Error'](v.message));
        copy.stack = v.stack;
        if ('cause' in v) copy.cause = clone(v.cause);
        return copy;
      }
      if (v instanceof Promise || v instanceof WeakMap || v instanceof WeakSet) throw uncloneable('#<' + v.constructor.name + '>');
      const copy = keep({});
      for (const key of Object.keys(v)) copy[key] = clone(v[key]);
      return copy;
    };
    return clone(value);
  }

  // ---- crypto

  const crypto = {
    randomUUID: () => host('uuid'),
    getRandomValues(array) {
      const bytes = bytesOf(array);
      if (bytes.length > 65536) throw from('host', new RangeError('The requested length exceeds 65,536 bytes'));
      bytes.set(fromBase64(host('random', bytes.length)));
      return array;
    },
  };

  return { Buffer, TextEncoder, TextDecoder, atob, btoa, structuredClone, crypto };
};
