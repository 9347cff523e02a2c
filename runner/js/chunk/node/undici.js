// undici on Go's client: request, Agent with what common and http compose, FormData. What else it has fails when it is used.
const web = require('node:web');
const { Readable } = require('node:stream');
const { stringify } = require('node:querystring');

class UndiciError extends Error {
  constructor(message, name = 'UndiciError', code = 'UND_ERR') { super(message); this.name = name; this.code = code; }
}
const invalid = message => new UndiciError(message, 'InvalidArgumentError', 'UND_ERR_INVALID_ARG');

// ---- What is sent

const asBuffer = part => (typeof part === 'string' ? Buffer.from(part) : Buffer.isBuffer(part) ? part
  : ArrayBuffer.isView(part) ? Buffer.from(part.buffer, part.byteOffset, part.byteLength) : Buffer.from(part));

async function bytesOf(body) {
  if (body === undefined || body === null) return [];
  if (typeof body === 'string' || ArrayBuffer.isView(body) || body instanceof ArrayBuffer) return [asBuffer(body)];
  if (body instanceof web.FormData) return multipart(body);
  if (body instanceof web.Blob) return [Buffer.from(await body.arrayBuffer()), body.type];
  if (typeof body.pipe === 'function' || body[Symbol.asyncIterator] || body[Symbol.iterator]) {
    const parts = [];
    for await (const part of body) parts.push(asBuffer(part));
    return [Buffer.concat(parts)];
  }
  throw invalid('body must be a string, a Buffer, a Readable stream, an iterable, or an async iterable');
}

async function multipart(form) {
  const boundary = '----formdata-undici-0' + String(Math.floor(Math.random() * 1e11)).padStart(11, '0');
  const quoted = text => text.replace(/\r\n?|\n/g, '%0D%0A').replace(/"/g, '%22');
  const parts = [];
  for (const [name, value] of form) {
    const file = value instanceof web.Blob;
    parts.push(Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${quoted(name)}"` +
      (file ? `; filename="${quoted(value.name)}"\r\nContent-Type: ${value.type || 'application/octet-stream'}` : '') + '\r\n\r\n'));
    parts.push(file ? Buffer.from(await value.arrayBuffer()) : Buffer.from(value.replace(/\r?\n|\r/g, '\r\n')), Buffer.from('\r\n'));
  }
  parts.push(Buffer.from(`--${boundary}--\r\n`));
  return [Buffer.concat(parts), 'multipart/form-data; boundary=' + boundary];
}

function headersOf(headers) {
  if (!headers) return [];
  const list = [];
  const add = (name, value) => {
    if (value === undefined || value === null) return;
    if (Array.isArray(value)) return value.forEach(one => add(name, one));
    if (/[^\t\x20-\x7e\x80-\xff]/.test(String(value))) throw invalid(`invalid ${name} header`);
    list.push([String(name), String(value)]);
  };
  if (Array.isArray(headers)) for (let i = 0; i < headers.length; i += 2) add(headers[i], headers[i + 1]);
  else for (const [name, value] of typeof headers[Symbol.iterator] === 'function' ? headers : Object.entries(headers)) add(name, value);
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
  #bytes;
  #used = false;
  constructor(bytes) {
    super({ read() { this.push(bytes); this.push(null); } });
    this.#bytes = bytes;
  }
  #take() {
    if (this.#used) throw new TypeError('unusable');
    this.#used = true;
    return this.#bytes;
  }
  get bodyUsed() { return this.#used; }
  async text() { return this.#take().toString('utf8').replace(/^\uFEFF/, ''); }
  async json() { return JSON.parse(await this.text()); }
  async bytes() { return new Uint8Array(this.#take()); }
  async arrayBuffer() { return new Uint8Array(this.#take()).buffer; }
  async blob() { return new web.Blob([this.#take()]); }
  async dump() { this.#used = true; }
}

function read(answer) {
  const headers = {};
  for (let i = 0; i < answer.headers.length; i += 2) {
    const [name, value] = [answer.headers[i], answer.headers[i + 1]];
    headers[name] = name in headers ? [].concat(headers[name], value) : value;
  }
  return { statusCode: answer.statusCode, statusText: answer.statusText, headers, trailers: {}, opaque: null, context: {}, body: new Body(Buffer.from(answer.body, 'base64')) };
}

// failed makes the error that a package would get.
function failed({ name, message, ...members }) {
  const error = Object.assign(new Error(message), members);
  if (name) error.name = name;
  if (!name) error.stack = `Error: ${message}`; // of Node's own, whose frames are nobody's
  return error;
}

const texts = value => (value === undefined || value === null ? [] : [].concat(value).map(String));
const tlsOf = (connect = {}) => ({
  CA: texts(connect.ca), Cert: texts(connect.cert).join('\n'), Key: texts(connect.key).join('\n'), Servername: connect.servername ?? '',
  RejectUnauthorized: connect.rejectUnauthorized,
});

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
      else throw new UndiciError('an interceptor of its own is not supported here');
    }
    return made;
  }
  async request({ origin, path = '/', query, method = 'GET', headers, body, headersTimeout, bodyTimeout, maxRedirections, signal }) {
    let url = new web.URL(String(origin ?? this.#base).replace(/\/$/, '') + withQuery(path, query));
    let sent = headersOf(headers);
    let [bytes, type] = await bytesOf(body);
    if (type && !sent.some(([name]) => /^content-type$/i.test(name))) sent.push(['content-type', type]);
    const history = [];
    for (let left = maxRedirections ?? this.#most ?? 0; ; left--) {
      signal?.throwIfAborted();
      const answer = JSON.parse(await host.exchange(JSON.stringify({
        Method: method, URL: url.href, Headers: sent, Body: bytes ? bytes.toString('base64') : '', HasBody: bytes !== undefined,
        TLS: tlsOf(this.#options.connect), HeadersTimeout: headersTimeout ?? 300e3, BodyTimeout: bodyTimeout ?? 300e3, Decompress: this.#decompress,
      })));
      if (answer.error) throw failed(answer.error);
      const response = read(answer);
      const { location } = response.headers;
      if (!location || left <= 0 || !redirects.includes(response.statusCode)) return response;
      const to = new web.URL(location, url);
      history.push(url.href);
      if (history.includes(to.href)) {
        throw invalid(`Redirect loop detected. Cannot redirect to ${to.origin}. This typically happens when using a Client or Pool with cross-origin redirects. Use an Agent for cross-origin redirects.`);
      }
      const drop = response.statusCode === 303;
      if ((drop && method !== 'HEAD') || (method === 'POST' && [301, 302].includes(response.statusCode))) [method, bytes] = ['GET', undefined];
      sent = sent.filter(([name]) => !/^host$/i.test(name) && !(drop && /^content-/i.test(name)) &&
        !(to.origin !== url.origin && /^(authorization|cookie|proxy-authorization)$/i.test(name)));
      url = to;
    }
  }
  close() { return Promise.resolve(); }
  destroy() { return Promise.resolve(); }
}
class Agent extends Dispatcher {}

let common = new Agent();
const request = (url, options = {}) => {
  const { origin, pathname, search } = new web.URL(url);
  return (options.dispatcher ?? common).request({ ...options, origin, path: pathname + search });
};

const missing = name => class { constructor() { throw new UndiciError(`${name} of undici is not here`, 'NotSupportedError', 'UND_ERR_NOT_SUPPORTED'); } };
module.exports = {
  Agent, Dispatcher, Client: Agent, Pool: Agent, request, FormData: web.FormData, File: web.File, MockAgent: missing('MockAgent'), ProxyAgent: missing('ProxyAgent'),
  interceptors: { redirect: options => ({ redirects: options?.maxRedirections ?? 0 }), decompress: () => ({ decompresses: true }) },
  setGlobalDispatcher(dispatcher) { common = dispatcher; }, getGlobalDispatcher: () => common, errors: { UndiciError },
};
