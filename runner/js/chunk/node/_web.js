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
    for (const part of String(init).replace(/^\?/, '').split('&')) {
      if (part === '') continue;
      const at = part.indexOf('=');
      this.#list.push((at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)]).map(decode));
    }
  }
  #changed() { this.#url?.(this.toString()); }
  append(name, value) { this.#list.push([String(name), String(value)]); this.#changed(); }
  delete(name, value) { this.#list = this.#list.filter(([n, v]) => n !== name || (value !== undefined && v !== value)); this.#changed(); }
  get(name) { return this.#list.find(([n]) => n === name)?.[1] ?? null; }
  getAll(name) { return this.#list.filter(([n]) => n === name).map(([, v]) => v); }
  has(name, value) { return this.#list.some(([n, v]) => n === name && (value === undefined || v === value)); }
  set(name, value) {
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
    if (!parts) throw invalid(String(input));
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
    if (typeof this['on' + event.type] === 'function') this['on' + event.type](event);
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
}

class AbortSignal extends EventTarget {
  #reason;
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

module.exports = {
  URL, URLSearchParams, Blob, File, FormData, EventTarget, Event, DOMException, AbortSignal, AbortController,
  // The streams are a package's, which is large.
  get ReadableStream() { return require('node:stream/web').ReadableStream; },
};
