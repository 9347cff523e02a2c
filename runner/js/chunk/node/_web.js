// web has the classes of the web that Node has as globals. URLs are parsed by Go.
const invalid = input => Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input });

class URLSearchParams {
  #list = [];
  #url;
  constructor(init = '', url) {
    this.#url = url;
    if (typeof init === 'object' && init !== null) {
      const pairs = typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init);
      for (const [name, value] of pairs) this.#list.push([String(name), String(value)]);
      return;
    }
    for (const part of String(init ?? '').replace(/^\?/, '').split('&')) {
      if (part === '') continue;
      const at = part.indexOf('=');
      this.#list.push((at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)]).map(decode));
    }
  }
  #changed() { this.#url?.(this.toString()); }
  append(name, value) { this.#list.push([String(name), String(value)]); this.#changed(); }
  #fits(name, value) { return ([n, v]) => n === String(name) && (value === undefined || v === String(value)); }
  delete(name, value) {
    const gone = this.#fits(name, value);
    this.#list = this.#list.filter(pair => !gone(pair));
    this.#changed();
  }
  get(name) { return this.#list.find(this.#fits(name))?.[1] ?? null; }
  getAll(name) { return this.#list.filter(this.#fits(name)).map(([, v]) => v); }
  has(name, value) { return this.#list.some(this.#fits(name, value)); }
  set(name, value) {
    name = String(name);
    const first = this.#list.findIndex(([n]) => n === name);
    if (first < 0) this.#list.push([String(name), String(value)]);
    else {
      this.#list[first][1] = String(value);
      this.#list = this.#list.filter(([n], i) => n !== name || i === first);
    }
    this.#changed();
  }
  sort() { this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#changed(); }
  forEach(f, self) { for (const [name, value] of this.#list) f.call(self, value, name, this); }
  *entries() { for (const [name, value] of this.#list) yield [name, value]; }
  *keys() { for (const [name] of this.#list) yield name; }
  *values() { for (const [, value] of this.#list) yield value; }
  [Symbol.iterator]() { return this.entries(); }
  get size() { return this.#list.length; }
  toString() { return this.#list.map(pair => pair.map(encode).join('=')).join('&'); }
  get [Symbol.toStringTag]() { return 'URLSearchParams'; }
}
const encode = text => encodeURIComponent(text.toWellFormed()).replace(/[!'()~]|%20/g, c => (c === '%20' ? '+' : '%' + c.charCodeAt(0).toString(16).toUpperCase()));
const decode = text => {
  const bytes = [];
  for (const part of text.replace(/\+/g, ' ').split(/(%[0-9a-f]{2})/i)) {
    if (/^%[0-9a-f]{2}$/i.test(part)) bytes.push(parseInt(part.slice(1), 16));
    else bytes.push(...Buffer.from(part));
  }
  return Buffer.from(bytes).toString();
};

class URL {
  #parts;
  #params;
  constructor(input, base) {
    const parts = host.call('url', String(input), base === undefined ? '' : String(base));
    if (!parts) throw Object.assign(invalid(String(input)), base === undefined ? {} : { base: String(base) });
    this.#parts = JSON.parse(parts);
  }
  static canParse(input, base) { return !!host.call('url', String(input), base === undefined ? '' : String(base)); }
  #set(part, value) {
    const parts = host.call('url-set', this.href, part, String(value));
    if (parts) this.#parts = JSON.parse(parts);
    else if (part === 'href') throw invalid(String(value));
  }
  get searchParams() {
    return (this.#params ??= new URLSearchParams(this.search, query => this.#set('search', query)));
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
  get [Symbol.toStringTag]() { return 'URL'; }
  static {
    const writable = ['href', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'];
    for (const part of [...writable, 'origin']) {
      Object.defineProperty(this.prototype, part, {
        configurable: true, enumerable: true,
        get() { return this.#parts[part]; },
        set: part === 'origin' ? undefined : function (value) {
          this.#set(part, value);
          if (part === 'search' || part === 'href') this.#params = undefined;
        },
      });
    }
  }
}

class Blob {
  #bytes;
  constructor(parts = [], { type = '' } = {}) {
    this.#bytes = Buffer.concat(Array.from(parts, part => (part instanceof Blob ? part.#bytes
      : typeof part === 'string' ? Buffer.from(part)
      : ArrayBuffer.isView(part) ? Buffer.from(part.buffer, part.byteOffset, part.byteLength) : Buffer.from(part))));
    this.type = String(type).toLowerCase();
  }
  get size() { return this.#bytes.length; }
  async arrayBuffer() { return new Uint8Array(this.#bytes).buffer; }
  async bytes() { return new Uint8Array(this.#bytes); }
  async text() { return this.#bytes.toString(); }
  stream() { return module.exports.ReadableStream.from((async function* (bytes) { yield new Uint8Array(bytes); })(this.#bytes)); }
  slice(start, end, type = '') { return new Blob([this.#bytes.subarray(start, end)], { type }); }
  get [Symbol.toStringTag]() { return 'Blob'; }
}
class File extends Blob {
  constructor(parts, name, options = {}) {
    super(parts, options);
    this.name = String(name);
    this.lastModified = options.lastModified ?? Date.now();
  }
  get [Symbol.toStringTag]() { return 'File'; }
}

class FormData {
  #list = [];
  append(name, value, file) { this.#list.push([String(name), entry(value, file)]); }
  set(name, value, file) {
    name = String(name);
    const first = this.#list.findIndex(([n]) => n === name);
    if (first < 0) return this.append(name, value, file);
    this.#list[first][1] = entry(value, file);
    this.#list = this.#list.filter(([n], i) => n !== name || i === first);
  }
  delete(name) { this.#list = this.#list.filter(([n]) => n !== name); }
  get(name) { return this.#list.find(([n]) => n === name)?.[1] ?? null; }
  getAll(name) { return this.#list.filter(([n]) => n === name).map(([, v]) => v); }
  has(name) { return this.#list.some(([n]) => n === name); }
  forEach(f, self) { for (const [name, value] of this.#list) f.call(self, value, name, this); }
  *entries() { for (const [name, value] of this.#list) yield [name, value]; }
  *keys() { for (const [name] of this.#list) yield name; }
  *values() { for (const [, value] of this.#list) yield value; }
  [Symbol.iterator]() { return this.entries(); }
  get [Symbol.toStringTag]() { return 'FormData'; }
}
const entry = (value, file) => (value instanceof Blob ? new File([value], file ?? value.name ?? 'blob', { type: value.type }) : String(value));

class EventTarget {
  #listeners = new Map();
  addEventListener(type, listener, options) {
    const all = this.#listeners.get(type) ?? [];
    if (listener && !all.some(one => one.listener === listener)) this.#listeners.set(type, [...all, { listener, once: !!options?.once }]);
  }
  removeEventListener(type, listener) {
    this.#listeners.set(type, (this.#listeners.get(type) ?? []).filter(one => one.listener !== listener));
  }
  dispatchEvent(event) {
    for (const { listener, once } of this.#listeners.get(event.type) ?? []) {
      if (once) this.removeEventListener(event.type, listener);
      if (typeof listener === 'function') listener.call(this, event);
      else listener.handleEvent(event);
    }
    return true;
  }
}
class Event {
  constructor(type) { this.type = String(type); }
  preventDefault() {}
}
class DOMException extends Error {
  #name;
  constructor(message = '', name = 'Error') { super(message); this.#name = name; }
  get name() { return this.#name; }
  get code() { return codes[this.#name] ?? 0; }
}
const codes = {
  InvalidCharacterError: 5, NotFoundError: 8, NotSupportedError: 9, InvalidStateError: 11, SyntaxError: 12, NetworkError: 19, AbortError: 20, QuotaExceededError: 22, TimeoutError: 23, DataCloneError: 25,
};

class AbortSignal extends EventTarget {
  #reason;
  #onabort = null;
  get onabort() { return this.#onabort; }
  set onabort(listener) {
    this.removeEventListener('abort', this.#onabort);
    this.#onabort = listener;
    this.addEventListener('abort', listener);
  }
  get aborted() { return this.#reason !== undefined; }
  get reason() { return this.#reason; }
  throwIfAborted() { if (this.aborted) throw this.#reason; }
  static abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
    const signal = new AbortSignal();
    end(signal, reason);
    return signal;
  }
  static timeout(delay) {
    const signal = new AbortSignal();
    setTimeout(() => end(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError')), delay);
    return signal;
  }
  static any(signals) {
    const joined = new AbortSignal();
    for (const signal of signals) {
      if (signal.aborted) end(joined, signal.reason);
      else signal.addEventListener('abort', () => end(joined, signal.reason));
    }
    return joined;
  }
  static end(signal, reason) {
    if (signal.aborted) return;
    signal.#reason = reason;
    signal.dispatchEvent(new Event('abort'));
  }
}
const { end } = AbortSignal;
delete AbortSignal.end;
class AbortController {
  signal = new AbortSignal();
  abort(reason = new DOMException('This operation was aborted', 'AbortError')) { end(this.signal, reason); }
}

class TextEncoder {
  get encoding() { return 'utf-8'; }
  encode(text = '') { return new Uint8Array(Buffer.from(String(text))); }
  encodeInto(text, into) {
    const bytes = Buffer.from(text).subarray(0, into.length);
    into.set(bytes);
    return { read: bytes.toString().length, written: bytes.length };
  }
}

const encodings = { 'utf-8': 'utf8', utf8: 'utf8', 'unicode-1-1-utf-8': 'utf8', 'utf-16le': 'utf16le', 'utf-16': 'utf16le', latin1: 'latin1', 'iso-8859-1': 'latin1', ascii: 'latin1', 'us-ascii': 'latin1', 'windows-1252': 'latin1' };
// What Node has besides is missing, which a package that looks for another way must not take for unknown.
const elsewhere = /^(?:(?:x-)?(?:gbk|gb18030|gb2312|big5|big5-hkscs|euc-jp|euc-kr|shift_jis|shift-jis|sjis)|iso-2022-jp|iso-?8859-?\d+|latin[2-9]|l[1-9]|windows-\d+|cp\d+|koi8(?:-[ru])?|ibm866|macintosh|x-mac-\w+|x-user-defined|utf-16be|replacement)$/;

class TextDecoder {
  #decoder;
  #begun = false;
  constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
    const name = String(label).trim().toLowerCase();
    if (!Object.hasOwn(encodings, name) && elsewhere.test(name)) throw require('node:_missing')(`TextDecoder of ${name}`);
    if (!Object.hasOwn(encodings, name)) throw Object.assign(new RangeError(`The "${label}" encoding is not supported`), { code: 'ERR_ENCODING_NOT_SUPPORTED' });
    Object.assign(this, { encoding: encodings[name] === 'utf8' ? 'utf-8' : encodings[name] === 'utf16le' ? 'utf-16le' : 'windows-1252', fatal, ignoreBOM });
  }
  decode(part = new Uint8Array(), { stream = false } = {}) {
    const bytes = ArrayBuffer.isView(part) ? Buffer.from(part.buffer, part.byteOffset, part.byteLength) : Buffer.from(part);
    this.#decoder ??= new (require('node:string_decoder').StringDecoder)(encodings[this.encoding]);
    let text = this.#decoder.write(bytes) + (stream ? '' : this.#decoder.end());
    if (this.fatal && text.includes('\uFFFD') && !bytes.includes('\uFFFD')) {
      throw Object.assign(new TypeError(`The encoded data was not valid for encoding ${this.encoding}`), { code: 'ERR_ENCODING_INVALID_ENCODED_DATA' });
    }
    if (!this.#begun && !this.ignoreBOM) text = text.replace(/^\uFEFF/, '');
    this.#begun = stream && (this.#begun || text !== '');
    if (!stream) this.#decoder = undefined;
    return text;
  }
}

function structuredClone(value, known = new Map()) {
  if (typeof value === 'function' || typeof value === 'symbol') throw new DOMException(`${String(value)} could not be cloned.`, 'DataCloneError');
  if (value === null || typeof value !== 'object') return value;
  if (known.has(value)) return known.get(value);
  const keep = made => { known.set(value, made); return made; };
  const clone = one => structuredClone(one, known);
  if (value instanceof Date) return keep(new Date(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (ArrayBuffer.isView(value)) {
    const Made = Buffer.isBuffer(value) ? Uint8Array : value.constructor;
    return keep(new Made(value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength)));
  }
  if (value instanceof Map) {
    const made = keep(new Map());
    for (const [key, one] of value) made.set(clone(key), clone(one));
    return made;
  }
  if (value instanceof Set) {
    const made = keep(new Set());
    for (const one of value) made.add(clone(one));
    return made;
  }
  if (value instanceof Error) {
    const kinds = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
    const made = keep(new (Object.hasOwn(kinds, value.name) ? kinds[value.name] : Error)(value.message));
    Object.defineProperty(made, 'stack', { value: value.stack, writable: true, configurable: true });
    if ('cause' in value) made.cause = clone(value.cause);
    return made;
  }
  if (['Promise', 'WeakMap', 'WeakSet', 'WeakRef'].includes(Object.prototype.toString.call(value).slice(8, -1))) throw new DOMException(`${String(value)} could not be cloned.`, 'DataCloneError');
  const made = keep(Array.isArray(value) ? new Array(value.length) : {});
  for (const key of Object.keys(value)) made[key] = clone(value[key]);
  return made;
}

const unreadable = message => new DOMException(message, 'InvalidCharacterError');
function atob(input) {
  const text = String(input).replace(/[\t\n\f\r ]/g, '');
  const digits = text.length % 4 === 0 ? text.replace(/==?$/, '') : text;
  if (/[^A-Za-z\d+/]/.test(digits)) throw unreadable('Invalid character');
  if (digits.length % 4 === 1) throw unreadable('The string to be decoded is not correctly encoded.');
  return Buffer.from(digits, 'base64').toString('latin1');
}
function btoa(input) {
  if (/[^\x00-\xff]/.test(String(input))) throw unreadable('Invalid character');
  return Buffer.from(String(input), 'latin1').toString('base64');
}

module.exports = {
  atob, btoa, URL, URLSearchParams, TextEncoder, TextDecoder, structuredClone: value => structuredClone(value), Blob, File, FormData, EventTarget, Event, DOMException, AbortSignal, AbortController,
  // The streams are a package's, which is large.
  get ReadableStream() { return require('node:stream/web').ReadableStream; },
};
