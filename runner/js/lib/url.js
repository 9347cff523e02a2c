// url.js has URL and URLSearchParams for the web's schemes. What they accept is
// decided in Go, by net/url.

(host, from) => {
  'use strict';

  const encode = text => encodeURIComponent(String(text).toWellFormed()).replace(/%20/g, '+').replace(/[!'()~]/g, c => '%' + c.charCodeAt(0).toString(16).toUpperCase());
  const decode = text => {
    text = text.replace(/\+/g, ' ');
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  };

  class URLSearchParams {
    #pairs = [];
    #changed = () => {};

    constructor(init = '', changed) {
      if (changed) this.#changed = changed;
      if (init === null || typeof init !== 'object') this.#read(String(init));
      else if (typeof init[Symbol.iterator] === 'function') for (const [key, value] of init) this.#pairs.push([String(key), String(value)]);
      else for (const key of Object.keys(init)) this.#pairs.push([key, String(init[key])]);
    }
    #read(text) {
      for (const part of text.replace(/^\?/, '').split('&')) {
        if (part === '') continue;
        const at = part.indexOf('=');
        this.#pairs.push(at < 0 ? [decode(part), ''] : [decode(part.slice(0, at)), decode(part.slice(at + 1))]);
      }
    }
    get size() { return this.#pairs.length; }
    append(key, value) { this.#pairs.push([String(key), String(value)]); this.#changed(); }
    delete(key) { this.#pairs = this.#pairs.filter(pair => pair[0] !== String(key)); this.#changed(); }
    get(key) { return this.#pairs.find(pair => pair[0] === String(key))?.[1] ?? null; }
    getAll(key) { return this.#pairs.filter(pair => pair[0] === String(key)).map(pair => pair[1]); }
    has(key) { return this.#pairs.some(pair => pair[0] === String(key)); }
    set(key, value) {
      const first = this.#pairs.find(pair => pair[0] === String(key));
      if (!first) return this.append(key, value);
      first[1] = String(value);
      this.#pairs = this.#pairs.filter(pair => pair === first || pair[0] !== String(key));
      this.#changed();
    }
    sort() { this.#pairs.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)); this.#changed(); }
    forEach(callback, self) { for (const [key, value] of this.#pairs) callback.call(self, value, key, this); }
    *entries() { for (const [key, value] of this.#pairs) yield [key, value]; }
    *keys() { for (const pair of this.#pairs) yield pair[0]; }
    *values() { for (const pair of this.#pairs) yield pair[1]; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map(pair => encode(pair[0]) + '=' + encode(pair[1])).join('&'); }
    get [Symbol.toStringTag]() { return 'URLSearchParams'; }
  }

  const ports = { 'http:': '80', 'https:': '443', 'ws:': '80', 'wss:': '443', 'ftp:': '21' };

  class URL {
    #parts;
    #params;

    constructor(url, base) {
      const answer = host('url', String(url), base === undefined ? '' : String(base));
      if (answer === '') {
        throw from('host', Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input: String(url) }));
      }
      this.#parts = JSON.parse(answer);
      if (this.#parts.port === ports[this.#parts.protocol]) this.#parts.port = '';
      this.#reparse();
    }
    #reparse() {
      this.#params = new URLSearchParams(this.#parts.search, () => {
        const text = this.#params.toString();
        this.#parts.search = text === '' ? '' : '?' + text;
      });
    }
    static canParse(url, base) {
      try {
        return Boolean(new URL(url, base));
      } catch {
        return false;
      }
    }
    get protocol() { return this.#parts.protocol; }
    set protocol(value) { this.#parts.protocol = String(value).replace(/:?$/, ':'); }
    get username() { return this.#parts.username; }
    set username(value) { this.#parts.username = encodeURIComponent(value); }
    get password() { return this.#parts.password; }
    set password(value) { this.#parts.password = encodeURIComponent(value); }
    get hostname() { return this.#parts.hostname; }
    set hostname(value) { this.#parts.hostname = String(value).toLowerCase(); }
    get port() { return this.#parts.port; }
    set port(value) { this.#parts.port = String(value) === ports[this.protocol] ? '' : String(value); }
    get host() { return this.hostname + (this.port && ':' + this.port); }
    set host(value) { [this.hostname, this.port = ''] = String(value).split(':'); }
    get origin() { return this.protocol in ports ? `${this.protocol}//${this.host}` : 'null'; }
    get pathname() { return this.#parts.pathname; }
    set pathname(value) { this.#parts.pathname = String(value).replace(/^(?!\/)/, '/').replace(/[?# ]/g, encodeURIComponent); }
    get search() { return this.#parts.search; }
    set search(value) {
      this.#parts.search = String(value) === '' ? '' : String(value).replace(/^(?!\?)/, '?').replace(/[# ]/g, encodeURIComponent);
      this.#reparse();
    }
    get searchParams() { return this.#params; }
    get hash() { return this.#parts.hash; }
    set hash(value) { this.#parts.hash = String(value) === '' ? '' : String(value).replace(/^(?!#)/, '#'); }
    get href() {
      const user = this.username + (this.password && ':' + this.password);
      const authority = this.#parts.authority ? '//' + (user && user + '@') + this.host : '';
      return this.protocol + authority + this.pathname + this.search + this.hash;
    }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }

  return { URL, URLSearchParams };
};
