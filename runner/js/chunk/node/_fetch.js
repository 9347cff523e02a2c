// _fetch has fetch and its classes, as undici words them, on the way that undici has here.
const web = require('node:_web');
const wire = require('node:_wire');
const { URL, URLSearchParams, Blob, FormData } = web;

const token = /^[!#$%&'*+\-.^_`|~\w]+$/;

class Headers {
  #list = new Map(); // values by name
  #given = new Map(); // names as they were given, by name
  #cookies = [];
  constructor(init) {
    if (init === undefined) return;
    if (init === null || typeof init !== 'object') throw new TypeError("Headers constructor: init given is not an object.");
    const pairs = init instanceof Headers ? init._given() : typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init);
    for (const pair of pairs) {
      const [name, value, ...more] = pair;
      if (more.length > 0 || value === undefined && pair.length !== 2) throw new TypeError('Headers constructor: expected name/value pair to be length 2.');
      this.append(name, value);
    }
  }
  static #name(name) {
    name = String(name);
    if (!token.test(name)) throw new TypeError(`Headers.append: "${name}" is an invalid header name.`);
    return name.toLowerCase();
  }
  static #value(value) {
    value = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
    if (/[\0\r\n]/.test(value) || /[^\x00-\xff]/.test(value)) throw new TypeError(`Headers.append: "${value}" is an invalid header value.`);
    return value;
  }
  append(given, value) {
    let name;
    [name, value] = [Headers.#name(given), Headers.#value(value)];
    if (!this.#list.has(name)) this.#given.set(name, String(given));
    if (name === 'set-cookie') this.#cookies.push(value);
    this.#list.set(name, this.#list.has(name) ? `${this.#list.get(name)}${name === 'cookie' ? '; ' : ', '}${value}` : value);
  }
  set(given, value) {
    let name;
    [name, value] = [Headers.#name(given), Headers.#value(value)];
    this.#given.set(name, String(given));
    if (name === 'set-cookie') this.#cookies = [value];
    this.#list.set(name, value);
  }
  delete(name) {
    name = Headers.#name(name);
    if (name === 'set-cookie') this.#cookies = [];
    this.#list.delete(name);
  }
  get(name) { return this.#list.get(Headers.#name(name)) ?? null; }
  has(name) { return this.#list.has(Headers.#name(name)); }
  getSetCookie() { return [...this.#cookies]; }
  *entries() {
    for (const [name, value] of [...this.#list].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (name === 'set-cookie') for (const one of this.#cookies) yield [name, one];
      else yield [name, value];
    }
  }
  // _given are what is sent: the names as they were given.
  _given() { return [...this.entries()].map(([name, value]) => [this.#given.get(name), value]); }
  *keys() { for (const [name] of this.entries()) yield name; }
  *values() { for (const [, value] of this.entries()) yield value; }
  forEach(f, self) { for (const [name, value] of this.entries()) f.call(self, value, name, this); }
  [Symbol.iterator]() { return this.entries(); }
  get [Symbol.toStringTag]() { return 'Headers'; }
}

// contentOf reads what a body is made of: whole, by a function that makes it, or a stream.
function contentOf(body) {
  if (body === undefined || body === null) return {};
  if (body instanceof URLSearchParams) return { whole: body.toString(), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  if (body instanceof FormData) return { make: () => wire.multipart(body, Blob) };
  if (body instanceof Blob) return { make: async () => [Buffer.from(await body.arrayBuffer())], type: body.type || undefined };
  if (ArrayBuffer.isView(body) || body instanceof ArrayBuffer) return { whole: Buffer.from(wire.asBuffer(body)) };
  if (typeof body === 'object' && body[Symbol.asyncIterator]) return { stream: body };
  return { whole: String(body), type: 'text/plain;charset=UTF-8' };
}

class Body {
  #content;
  #used = false;
  _begin(content) {
    this.#content = content;
    if (content.make && !content.type) { // whose boundary is in the type
      content.made = content.make();
    }
    return this;
  }
  get body() {
    const content = this.#content;
    if (content.source) {
      const { source } = content;
      content.stream = new web.ReadableStream({
        type: 'bytes',
        async pull(controller) {
          const part = await source.next();
          if (part !== null) return controller.enqueue(new Uint8Array(part));
          controller.close();
          controller.byobRequest?.respond(0);
        },
        cancel() { source.cancel(); },
      });
      content.source = undefined;
    } else if (!content.stream && (content.whole !== undefined || content.make)) {
      content.stream = web.ReadableStream.from((async function* (self) { yield new Uint8Array(Buffer.from(await self._whole())); })(this));
    }
    return content.stream ?? null;
  }
  get bodyUsed() { return this.#used; }
  async _whole() {
    const { whole, source, made, make } = this.#content;
    if (source) return source.rest();
    return whole ?? (made || make ? (await (made ?? make()))[0] : '');
  }
  async #take() {
    if (this.#used || this.#content.stream?.locked) throw new TypeError('Body is unusable: Body has already been read');
    const { stream } = this.#content;
    this.#used = stream !== undefined || this.#content.source !== undefined || this.#content.whole !== undefined || this.#content.make !== undefined;
    if (!stream) return this._whole();
    const parts = [];
    for await (const part of stream) parts.push(wire.asBuffer(part));
    return Buffer.concat(parts);
  }
  async text() { return (await this.#take()).toString('utf8').replace(/^\uFEFF/, ''); }
  async json() { return JSON.parse(await this.text()); }
  async bytes() { return new Uint8Array(Buffer.from(await this.#take())); }
  async arrayBuffer() { return (await this.bytes()).buffer; }
  async blob() { return new Blob([await this.bytes()], { type: this.headers.get('content-type') ?? '' }); }
  async formData() {
    const type = this.headers.get('content-type') ?? '';
    const form = new FormData();
    if (!/^application\/x-www-form-urlencoded/i.test(type)) throw new TypeError('Content-Type was not one of "multipart/form-data" or "application/x-www-form-urlencoded".');
    for (const [name, value] of new URLSearchParams(await this.text())) form.append(name, value);
    return form;
  }
  // _copy returns the content for a clone, and goes on with the other half.
  _copy() {
    if (this.#used || this.#content.stream?.locked) throw new TypeError(`${this.constructor.name}.clone: Body has already been consumed.`);
    if (this.#content.source || this.#content.stream) {
      const [one, other] = this.body.tee();
      this.#content = { stream: one };
      return { stream: other };
    }
    return { ...this.#content };
  }
  async _payload() {
    const { stream, made, make, whole } = this.#content;
    if (stream) return [stream];
    return made || make ? (made ?? make()) : [whole];
  }
}

class Request extends Body {
  constructor(input, init = {}) {
    super();
    const from = input instanceof Request ? input : undefined;
    if (from) this.url = from.url;
    else {
      let url;
      try {
        url = new URL(String(input));
      } catch (cause) {
        throw Object.assign(new TypeError('Failed to parse URL from ' + input), { cause });
      }
      if (url.username || url.password) throw new TypeError('Request cannot be constructed from a URL that includes credentials: ' + input);
      this.url = url.href;
    }
    const method = String(init.method ?? from?.method ?? 'GET');
    if (!token.test(method)) throw new TypeError(`'${method}' is not a valid HTTP method.`);
    if (/^(connect|trace|track)$/i.test(method)) throw new TypeError(`'${method}' HTTP method is unsupported.`);
    this.method = /^(delete|get|head|options|post|put)$/i.test(method) ? method.toUpperCase() : method;
    this.headers = new Headers(init.headers ?? from?.headers);
    this.signal = init.signal ?? from?.signal ?? new web.AbortController().signal;
    this.redirect = init.redirect ?? from?.redirect ?? 'follow';
    this.keepalive = !!init.keepalive;
    if (init.body !== undefined && init.body !== null && ['GET', 'HEAD'].includes(this.method)) throw new TypeError('Request with GET/HEAD method cannot have body.');
    const content = init.body === undefined && from ? from._copy() : contentOf(init.body);
    if (content.stream && init.body && init.duplex !== 'half') throw new TypeError('RequestInit: duplex option is required when sending a body.');
    if (content.type && !this.headers.has('content-type')) this.headers.set('content-type', content.type);
    this._begin(content);
  }
  clone() { return new Request(this); }
  get [Symbol.toStringTag]() { return 'Request'; }
}

class Response extends Body {
  #url = '';
  constructor(body, { status = 200, statusText = '', headers } = {}) {
    super();
    if (status < 200 || status > 599) throw new RangeError('init["status"] must be in the range of 200 to 599, inclusive.');
    if (body !== undefined && body !== null && [204, 205, 304].includes(status)) throw new TypeError(`Response constructor: Invalid response status code ${status}`);
    Object.assign(this, { status, statusText, headers: new Headers(headers), type: 'default', redirected: false });
    const content = contentOf(body);
    if (content.type && !this.headers.has('content-type')) this.headers.set('content-type', content.type);
    this._begin(content);
  }
  static _from(url, answer, source, redirected) {
    const made = new Response(null, { status: 200, statusText: answer.statusText });
    const { headers = [] } = answer;
    for (let i = 0; i < headers.length; i += 2) made.headers.append(headers[i], headers[i + 1]);
    Object.assign(made, { status: answer.statusCode, type: 'basic', redirected });
    made.#url = url.href.replace(/#.*/, '');
    return made._begin([101, 204, 205, 304].includes(answer.statusCode) ? {} : { source });
  }
  get url() { return this.#url; }
  get ok() { return this.status >= 200 && this.status <= 299; }
  clone() {
    const content = this._copy();
    const made = new Response(null, { statusText: this.statusText, headers: this.headers });
    Object.assign(made, { status: this.status, type: this.type, redirected: this.redirected });
    made.#url = this.#url;
    return made._begin(content);
  }
  static json(data, init = {}) {
    const made = new Response(JSON.stringify(data), init);
    if (!new Headers(init.headers).has('content-type')) made.headers.set('content-type', 'application/json');
    return made;
  }
  static error() {
    const made = new Response();
    return Object.assign(made, { status: 0, type: 'error' });
  }
  static redirect(url, status = 302) {
    if (![301, 302, 303, 307, 308].includes(status)) throw new RangeError(`Invalid status code ${status}`);
    return Object.assign(new Response(null, { headers: { location: new URL(url).href } }), { status });
  }
  get [Symbol.toStringTag]() { return 'Response'; }
}

// fetchAs returns fetch for who says so to servers.
const fetchAs = agent => async function fetch(input, init = {}) {
  const request = new Request(input, init);
  const { signal } = request;
  if (signal.aborted) throw signal.reason;
  const dispatcher = init.dispatcher ?? require('node:undici').getGlobalDispatcher();
  let url = new URL(request.url);
  if (!/^https?:$/.test(url.protocol)) throw failed(new Error(url.protocol === 'about:' ? 'about scheme is not supported' : 'unknown scheme'));
  let { method } = request;
  let [payload, type] = await request._payload();
  if (type && !request.headers.has('content-type')) request.headers.set('content-type', type);
  let { headers } = request;
  for (let count = 0; ; count++) {
    let came;
    try {
      came = await dispatcher.exchange(url, { method, headers: withUsual(headers, url, agent)._given(), body: payload, signal }, { Decompress: true, DecompressErrors: true });
    } catch (error) {
      throw signal.aborted ? error : failed(error);
    }
    const { answer, stream } = came;
    const response = Response._from(url, answer, stream, count > 0);
    signal.addEventListener('abort', () => stream.cancel(), { once: true });
    const location = response.headers.get('location');
    if (![301, 302, 303, 307, 308].includes(answer.statusCode) || request.redirect === 'manual') return response;
    stream.cancel();
    if (request.redirect === 'error') throw failed(new Error('unexpected redirect'));
    if (location === null) return response;
    if (count >= 20) throw failed(new Error('redirect count exceeded'));
    const to = new URL(Buffer.from(location, 'latin1').toString(), url);
    if (!/^https?:$/.test(to.protocol)) throw failed(new Error('URL scheme must be a HTTP(S) scheme'));
    headers = new Headers(headers);
    if (([301, 302].includes(answer.statusCode) && method === 'POST') || (answer.statusCode === 303 && !['GET', 'HEAD'].includes(method))) {
      [method, payload] = ['GET', undefined];
      for (const name of ['content-encoding', 'content-language', 'content-location', 'content-type', 'content-length']) headers.delete(name);
    }
    if (payload !== undefined && typeof payload !== 'string' && !Buffer.isBuffer(payload)) throw failed(new Error('Request body cannot be sent again'));
    if (to.origin !== url.origin) for (const name of ['authorization', 'proxy-authorization', 'cookie', 'host']) headers.delete(name);
    url = to;
  }
};

const failed = cause => Object.assign(new TypeError('fetch failed'), { cause });

// withUsual adds what fetch says by itself.
function withUsual(headers, url, agent) {
  const all = new Headers(headers);
  const usual = { accept: '*/*', 'accept-language': '*', 'sec-fetch-mode': 'cors', 'user-agent': agent, 'accept-encoding': url.protocol === 'https:' ? 'br, gzip, deflate' : 'gzip, deflate' };
  for (const name of Object.keys(usual)) if (!all.has(name)) all.set(name, usual[name]);
  return all;
}

module.exports = { Headers, Request, Response, fetchAs };
