// undici on Go's client: request, Agent with what common and http compose, FormData. What else it has fails when it is used.
const web = require('node:_web');
const wire = require('node:_wire');
const { Readable } = require('node:stream');
const { stringify } = require('node:querystring');

class UndiciError extends Error {
  constructor(message, name = 'UndiciError', code = 'UND_ERR') { super(message); this.name = name; this.code = code; }
}
const token = /^[!#$%&'*+\-.^_`|~\w]+$/;
const invalid = message => new UndiciError(message, 'InvalidArgumentError', 'UND_ERR_INVALID_ARG');

// ---- What is sent

// payloadOf returns what is sent of a body, and its type.
async function payloadOf(body) {
  if (body === undefined || body === null) return [];
  if (typeof body === 'string') return [body];
  if (ArrayBuffer.isView(body) || body instanceof ArrayBuffer) return [wire.asBuffer(body)];
  if (body instanceof web.FormData) return wire.multipart(body, web.Blob);
  if (body instanceof web.Blob) return [Buffer.from(await body.arrayBuffer()), body.type];
  if (Array.isArray(body)) { // nothing is sent before there is something to send
    if (body.length === 0) return [''];
    wire.check(body[0]);
  }
  if (body[Symbol.asyncIterator] || body[Symbol.iterator]) return [body];
  throw invalid('body must be a string, a Buffer, a Readable stream, an iterable, or an async iterable');
}

function headersOf(headers) {
  if (!headers) return [];
  const list = [];
  const add = (name, value) => {
    if (value === undefined) return;
    if (typeof name !== 'string') throw new TypeError('key.toLowerCase is not a function');
    if (!token.test(name)) throw invalid('invalid header key');
    const known = name.toLowerCase();
    if (['transfer-encoding', 'keep-alive', 'upgrade'].includes(known)) throw invalid(`invalid ${known} header`);
    if (known === 'expect') throw new UndiciError('expect header not supported', 'NotSupportedError', 'UND_ERR_NOT_SUPPORTED');
    for (const one of Array.isArray(value) ? value : [value]) {
      const text = one === null ? '' : typeof one === 'object' ? '\0' : String(one);
      if (/[^\t\x20-\x7e\x80-\xff]/.test(text) || (known === 'content-length' && !/^\d+$/.test(text))) throw invalid(`invalid ${name} header`);
      list.push([name, text]);
    }
  };
  if (Array.isArray(headers)) {
    if (headers.length % 2 !== 0) throw invalid('headers array must be even');
    for (let i = 0; i < headers.length; i += 2) add(headers[i], headers[i + 1]);
  } else if (typeof headers === 'object') {
    for (const pair of typeof headers[Symbol.iterator] === 'function' ? headers : Object.entries(headers)) {
      if (!Array.isArray(pair) || pair.length !== 2) throw invalid('headers must be in key-value pair format');
      add(pair[0], pair[1]);
    }
  } else {
    throw invalid('headers must be an object or an array');
  }
  return list;
}

function withQuery(path, query) {
  if (!query) return path;
  if (path.includes('?') || path.includes('#')) throw new Error('Query params cannot be passed when url already contains "?" or "#".');
  const text = stringify(query);
  return text ? `${path}?${text}` : path;
}

// ---- What comes back

class Body extends Readable {
  #source;
  #used = false;
  constructor(source) {
    super({
      read() { source.next().then(part => this.push(part), error => this.destroy(error)); },
      destroy(error, done) { source.cancel(); done(error); },
    });
    this.#source = source;
  }
  #consume(read) {
    if (this.#used) {
      throw Object.assign(new Error('The expression evaluated to a falsy value:\n\n  assert(!stream[kConsume])\n'), { name: 'AssertionError', code: 'ERR_ASSERTION' });
    }
    return this.#take().then(read);
  }
  async #take() {
    if (this.bodyUsed) throw new TypeError('unusable');
    this.#used = true;
    try {
      return await this.#source.rest();
    } catch (error) {
      throw this.errored ?? error;
    } finally {
      this.resume();
    }
  }
  get bodyUsed() { return this.#used || this.readableDidRead; }
  get body() { return web.ReadableStream.from(this); }
  text() { return this.#consume(all => all.toString('utf8').replace(/^\uFEFF/, '')); }
  json() { return this.text().then(text => JSON.parse(text)); }
  bytes() { return this.#consume(all => new Uint8Array(Buffer.from(all))); }
  arrayBuffer() { return this.bytes().then(bytes => bytes.buffer); }
  blob() { return this.bytes().then(bytes => new web.Blob([bytes])); }
  async dump() { this.#used = true; this.destroy(); }
}

function read(answer, source, { opaque, context }) {
  const headers = {};
  for (let i = 0; i < (answer.headers?.length ?? 0); i += 2) {
    const [name, value] = [answer.headers[i], answer.headers[i + 1]];
    headers[name] = name in headers ? [].concat(headers[name], value) : value;
  }
  return { statusCode: answer.statusCode, statusText: answer.statusText, headers, trailers: {}, opaque: opaque || null, body: new Body(source), context };
}

const redirects = [300, 301, 302, 303, 307, 308];

class Dispatcher {
  #base;
  #options;
  #most = 0;
  #decompress = false;
  constructor(base, options) {
    if (typeof base === 'object' && base !== null && !(base instanceof web.URL)) [base, options] = [undefined, base];
    this.#base = base;
    this.#options = options ?? {};
  }
  compose(...interceptors) {
    const made = new this.constructor(this.#base, this.#options);
    made.#most = this.#most;
    made.#decompress = this.#decompress;
    for (const one of interceptors.flat()) {
      if (one?.redirects !== undefined) made.#most = one.redirects;
      else if (one?.decompresses) made.#decompress = true;
      else throw require('node:_missing')('an interceptor of undici');
    }
    return made;
  }
  // exchange makes one request of those that redirects lead to, of a target at the origin of a URL.
  exchange(url, { target = url.pathname + url.search, method, headers, body, headersTimeout, bodyTimeout, signal }, decompress) {
    return wire.send({
      Method: method, URL: url.origin + target, Headers: headers, Close: method === 'HEAD', TLS: wire.tlsOf(this.#options.connect),
      HeadersTimeout: headersTimeout ?? this.#options.headersTimeout ?? 300e3, BodyTimeout: bodyTimeout ?? this.#options.bodyTimeout ?? 300e3, ...decompress,
    }, body, signal);
  }
  // #target returns what a request is for, as it is sent: nobody makes a URL of it.
  #target({ path, method, query }) {
    if (this.mocks && !String(path).startsWith('/')) path = '/' + path;
    if (typeof path !== 'string') throw invalid('path must be a string');
    if (!path.startsWith('/')) throw invalid('path must be an absolute URL or start with a slash');
    if (/[^\u0021-\u00ff]/.test(path) && !this.mocks) throw invalid('invalid request path');
    if (typeof method !== 'string') throw invalid('method must be a string');
    if (!token.test(method)) throw invalid('invalid request method');
    return withQuery(path, query);
  }
  async request(options) {
    const { headers, body, headersTimeout, bodyTimeout, maxRedirections, signal } = options;
    let { method } = options;
    let url = new web.URL(String(options.origin ?? this.#base));
    if (url.pathname !== '/' || url.search || url.hash) throw invalid('invalid url');
    let target = this.#target(options);
    let sent = headersOf(headers);
    let [payload, type] = await payloadOf(body);
    if (type && !sent.some(([name]) => /^content-type$/i.test(name))) sent.push(['content-type', type]);
    const most = maxRedirections ?? this.#most;
    if (most !== 0 && !(Number.isInteger(most) && most > 0)) throw invalid('maxRedirections must be a positive number');
    const history = [];
    let asked = { ...options }; // what a mock is asked
    for (let left = most; ; left--) {
      const { answer, stream } = await this.exchange(url, { target, method, headers: sent, body: payload, headersTimeout, bodyTimeout, signal, asked }, { Decompress: this.#decompress });
      const at = new web.URL(target, url);
      history.push(at);
      const response = read(answer, stream, { opaque: options.opaque, context: most ? { history } : this.mocks ? null : undefined });
      if (signal) follow(signal, response.body);
      const { location } = response.headers;
      const drop = response.statusCode === 303;
      const bodiless = (drop && method !== 'HEAD') || (method === 'POST' && [301, 302].includes(response.statusCode));
      const spent = payload !== undefined && typeof payload !== 'string' && !Buffer.isBuffer(payload) && !bodiless;
      if (!location || left <= 0 || spent || !redirects.includes(response.statusCode)) return response;
      stream.cancel();
      const to = new web.URL(location, at);
      if (!/^https?:$/.test(to.protocol)) throw invalid('Invalid URL protocol: the URL must start with `http:` or `https:`.');
      if (history.some(one => one.href === to.origin + to.pathname + to.search)) {
        throw invalid(`Redirect loop detected. Cannot redirect to ${to.origin}. This typically happens when using a Client or Pool with cross-origin redirects. Use an Agent for cross-origin redirects.`);
      }
      if (bodiless) [method, payload] = ['GET', undefined];
      sent = sent.filter(([name]) => !/^host$/i.test(name) && !(drop && /^content-/i.test(name)) &&
        !(to.origin !== url.origin && /^(authorization|cookie|proxy-authorization)$/i.test(name)));
      [url, target] = [to, to.pathname + to.search];
      asked = { ...asked, origin: to.origin, path: target, query: null, method, headers: sent.flat(), body: payload };
    }
  }
  close() { return Promise.resolve(); }
  destroy() { return Promise.resolve(); }
}
class Agent extends Dispatcher {}

// follow has a signal end a body.
function follow(signal, body) {
  const end = () => body.destroy(signal.reason);
  signal.addEventListener('abort', end);
  body.once('close', () => signal.removeEventListener('abort', end));
}

let common = new Agent();
const request = (url, options = {}) => {
  const { origin, pathname, search } = new web.URL(url);
  return (options.dispatcher ?? common).request({ ...options, origin, path: pathname + search, method: options.method || (options.body ? 'PUT' : 'GET') });
};

let mocks;
const mock = () => (mocks ??= require('node:_mock')({ Dispatcher, UndiciError, invalid, withQuery }));
let fetch;
const missing = name => class { constructor() { throw require('node:_missing')('undici.' + name); } };
module.exports = {
  Agent, Dispatcher, Client: Agent, Pool: Agent, request, FormData: web.FormData, File: web.File, ProxyAgent: missing('ProxyAgent'),
  get MockAgent() { return mock().MockAgent; }, get MockPool() { return mock().MockPool; }, get MockClient() { return mock().MockClient; },
  interceptors: { redirect: options => ({ redirects: options?.maxRedirections ?? 0 }), decompress: () => ({ decompresses: true }) },
  fetch: (...args) => (fetch ??= require('node:_fetch').fetchAs('undici'))(...args),
  get Headers() { return require('node:_fetch').Headers; }, get Request() { return require('node:_fetch').Request; }, get Response() { return require('node:_fetch').Response; },
  setGlobalDispatcher(dispatcher) { common = dispatcher; }, getGlobalDispatcher: () => common, errors: { UndiciError },
};
