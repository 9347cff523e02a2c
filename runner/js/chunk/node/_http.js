// _http makes http and https.
const { Readable, Writable } = require('node:stream');
const EventEmitter = require('node:events');
const wire = require('node:_wire');
const { URL } = require('node:_web');
const { STATUS_CODES, METHODS } = require('node:_http_names');

const coded = (message, code) => Object.assign(new Error(message), { code });
const hangUp = () => coded('socket hang up', 'ECONNRESET');
const notHere = require('node:_missing');
// ofHTTP words an error as http does, where undici has other words.
function ofHTTP(error, words) {
  if (error?.code === 'UND_ERR_SOCKET') return coded(words, 'ECONNRESET');
  if (error?.code === 'ERR_SSL_WRONG_VERSION_NUMBER') return Object.assign(coded('write EPROTO ' + error.message, 'EPROTO'), { errno: -71, syscall: 'write' });
  return error;
}

class Agent extends EventEmitter {
  constructor(options = {}) {
    super();
    this.options = { ...options };
    this.keepAlive = !!options.keepAlive;
    this.maxSockets = options.maxSockets ?? Infinity;
    this.maxFreeSockets = options.maxFreeSockets ?? 256;
    this.requests = {};
    this.sockets = {};
    this.freeSockets = {};
    this.defaultPort = 80;
    this.protocol = 'http:';
  }
  getName() { return ''; }
  destroy() {}
}
class SecureAgent extends Agent {
  constructor(options) {
    super(options);
    this.defaultPort = 443;
    this.protocol = 'https:';
  }
}

// socketFor stands for the connection, about which packages ask little.
function socketFor(request, secure) {
  const self = () => socket;
  const socket = Object.assign(new EventEmitter(), {
    encrypted: secure, authorized: secure, connecting: false, destroyed: false, readable: true, writable: true, remoteAddress: request.host, remotePort: undefined,
    setKeepAlive: self, setNoDelay: self, setTimeout: self, ref: self, unref: self, cork() {}, uncork() {}, address: () => ({}),
    getPeerCertificate: () => ({}), destroy: error => { request.destroy(error); return socket; }, end: self,
  });
  return socket;
}

const onlyOnce = new Set(['age', 'authorization', 'content-length', 'content-type', 'etag', 'expires', 'from', 'host', 'if-modified-since', 'if-unmodified-since',
  'last-modified', 'location', 'max-forwards', 'proxy-authorization', 'referer', 'retry-after', 'server', 'user-agent']);

class IncomingMessage extends Readable {
  #timer;
  constructor(answer, stream, request) {
    super({
      read() {
        stream.next().then(part => {
          request.refreshTimeout();
          if (part === null) this.complete = true;
          this.push(part);
        }, error => this.destroy(ofHTTP(error, 'aborted')));
      },
      destroy(error, done) {
        if (!this.complete) {
          this.aborted = true;
          this.emit('aborted');
          error ??= coded('aborted', 'ECONNRESET');
        }
        stream.cancel();
        done(error);
      },
    });
    const { headers = [] } = answer;
    Object.assign(this, {
      statusCode: answer.statusCode, statusMessage: answer.statusText, httpVersion: '1.1', httpVersionMajor: 1, httpVersionMinor: 1, url: '', method: null,
      headers: {}, rawHeaders: headers, trailers: {}, rawTrailers: [], complete: false, aborted: false, req: request, socket: request.socket, connection: request.socket, client: request.socket,
    });
    for (let i = 0; i < headers.length; i += 2) this.#add(headers[i], headers[i + 1]);
  }
  #add(name, value) {
    const { headers } = this;
    if (name === 'set-cookie') (headers[name] ??= []).push(value);
    else if (!(name in headers)) headers[name] = value;
    else if (!onlyOnce.has(name)) headers[name] += (name === 'cookie' ? '; ' : ', ') + value;
  }
  setTimeout(delay, callback) {
    if (callback) this.on('timeout', callback);
    clearTimeout(this.#timer);
    if (delay > 0) {
      this.#timer = setTimeout(() => this.emit('timeout'), delay);
      this.once('close', () => clearTimeout(this.#timer));
    }
    return this;
  }
}

// settingsOf reads the arguments of request.
function settingsOf(input, options, callback) {
  let settings = {};
  if (typeof input === 'string' || typeof input?.searchParams === 'object') {
    const url = new URL(String(input));
    settings = { protocol: url.protocol, hostname: url.hostname.replace(/^\[|\]$/g, ''), port: url.port, path: url.pathname + url.search };
    if (url.username || url.password) settings.auth = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  } else {
    [callback, options] = [options, input];
  }
  if (typeof options === 'function') [callback, options] = [options, undefined];
  for (const name in options) settings[name] = options[name]; // what is inherited too, as of a URL
  return [settings, callback];
}

class ClientRequest extends Writable {
  #headers = new Map(); // name and value by the name in small letters
  #stream = new wire.Stream();
  #settings;
  #sent = false;
  #follows = false;
  #timer;
  #timeout = 0;
  constructor(own, input, options, then) {
    super({ autoDestroy: false, decodeStrings: false });
    const [settings, callback] = settingsOf(input, options, then);
    const agent = settings.agent === undefined ? own.globalAgent : settings.agent || new own.Agent();
    if (typeof settings.createConnection === 'function' || typeof agent.createConnection === 'function' || typeof agent.connect === 'function') {
      throw notHere('a connection that an agent makes');
    }
    if (settings.socketPath) throw notHere('http.request with a socketPath');
    this.#settings = { ...agent.options, ...settings };
    this.protocol = settings.protocol ?? own.protocol;
    if (this.protocol !== (agent.protocol ?? own.protocol)) {
      throw Object.assign(new TypeError(`Protocol "${this.protocol}" not supported. Expected "${agent.protocol}"`), { code: 'ERR_INVALID_PROTOCOL' });
    }
    this.method = String(settings.method ?? 'GET').toUpperCase();
    this.host = settings.hostname ?? settings.host ?? 'localhost';
    this.path = settings.path || '/';
    if (/[^\u0021-\u00ff]/.test(this.path)) {
      throw Object.assign(new TypeError('Request path contains unescaped characters'), { code: 'ERR_UNESCAPED_CHARACTERS' });
    }
    this.port = settings.port ?? settings.defaultPort;
    Object.assign(this, { agent, aborted: false, reusedSocket: false, maxHeadersCount: null, res: null, headersSent: false, shouldKeepAlive: !!(agent.keepAlive) });
    this.#readHeaders(settings);
    if (callback) this.once('response', callback);
    this.socket = this.connection = socketFor(this, this.protocol === 'https:');
    if (settings.timeout) this.setTimeout(settings.timeout);
    this.#heed(settings.signal);
    process.nextTick(() => {
      if (this.destroyed) return;
      this.emit('socket', this.socket);
      this.socket.emit('connect');
      if (this.protocol === 'https:') this.socket.emit('secureConnect');
    });
  }
  #readHeaders({ headers, auth }) {
    if (Array.isArray(headers)) {
      const pairs = Array.isArray(headers[0]) ? headers : headers.flatMap((name, i) => (i % 2 ? [] : [[name, headers[i + 1]]]));
      for (const [name, value] of pairs) this.appendHeader(name, value);
    } else {
      for (const name of Object.keys(headers ?? {})) if (headers[name] !== undefined) this.setHeader(name, headers[name]);
    }
    if (!this.hasHeader('host')) this.setHeader('Host', this.#authority());
    if (auth && !this.hasHeader('authorization')) this.setHeader('Authorization', 'Basic ' + Buffer.from(auth).toString('base64'));
  }
  #heed(signal) {
    if (!signal) return;
    const end = () => this.destroy(Object.assign(new Error('The operation was aborted', { cause: signal.reason }), { name: 'AbortError', code: 'ABORT_ERR' }));
    if (signal.aborted) process.nextTick(end);
    else {
      signal.addEventListener('abort', end);
      this.once('close', () => signal.removeEventListener('abort', end));
    }
  }

  setHeader(name, value) {
    if (this.headersSent) throw coded('Cannot set headers after they are sent to the client', 'ERR_HTTP_HEADERS_SENT');
    if (typeof name !== 'string' || !/^[!#$%&'*+\-.^_`|~\w]+$/.test(name)) {
      throw Object.assign(new TypeError(`Header name must be a valid HTTP token ["${name}"]`), { code: 'ERR_INVALID_HTTP_TOKEN' });
    }
    if (value === undefined) throw Object.assign(new TypeError(`Invalid value "undefined" for header "${name}"`), { code: 'ERR_HTTP_INVALID_HEADER_VALUE' });
    for (const one of [].concat(value)) {
      if (/[^\t\x20-\x7e\x80-\xff]/.test(String(one))) throw Object.assign(new TypeError(`Invalid character in header content ["${name}"]`), { code: 'ERR_INVALID_CHAR' });
    }
    this.#headers.set(name.toLowerCase(), [name, value]);
    return this;
  }
  appendHeader(name, value) {
    const known = this.getHeader(name);
    return this.setHeader(name, known === undefined ? value : [].concat(known, value));
  }
  getHeader(name) { return this.#headers.get(String(name).toLowerCase())?.[1]; }
  hasHeader(name) { return this.#headers.has(String(name).toLowerCase()); }
  removeHeader(name) { this.#headers.delete(String(name).toLowerCase()); }
  getHeaders() { return Object.assign(Object.create(null), Object.fromEntries([...this.#headers].map(([key, [, value]]) => [key, value]))); }
  getHeaderNames() { return [...this.#headers.keys()]; }
  getRawHeaderNames() { return [...this.#headers.values()].map(([name]) => name); }
  flushHeaders() { if (!this.#sent) this.#send(undefined, true); }
  setNoDelay() {}
  setSocketKeepAlive() {}

  write(chunk, encoding, done) {
    this.flushHeaders();
    return super.write(chunk, encoding, done);
  }
  end(chunk, encoding, done) {
    if (typeof chunk === 'function') [chunk, done] = [undefined, chunk];
    if (typeof encoding === 'function') [encoding, done] = [undefined, encoding];
    if (this.#sent) return super.end(chunk, encoding, done);
    // What is sent whole has a length.
    this.#send(chunk === undefined || chunk === null ? undefined : wire.asBuffer(chunk, encoding), false);
    return super.end(done);
  }
  _write(chunk, encoding, done) { this.#stream.write(wire.asBuffer(chunk, encoding)).then(() => done(), () => done()); }
  _final(done) {
    if (this.#follows) this.#stream.end().then(() => done(), () => done());
    else done();
  }

  // #authority is the host and, where it is not the usual one, the port.
  #authority() {
    const { host, port, protocol } = this;
    const name = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
    return name + (port && Number(port) !== (protocol === 'https:' ? 443 : 80) ? ':' + port : '');
  }
  #url() { return `${this.protocol}//${this.#authority()}${this.path.startsWith('/') ? '' : '/'}${this.path}`; }
  #send(body, follows) {
    this.#sent = this.headersSent = true;
    this.#follows = follows;
    const headers = [...this.#headers.values()].flatMap(([name, value]) => [].concat(value).map(one => [name, String(one)]));
    const length = Number(this.getHeader('content-length') ?? -1);
    const connection = this.getHeader('connection');
    let asked;
    try {
      asked = this.#stream.request({
        Method: this.method, URL: this.#url(), Headers: headers, TLS: wire.tlsOf(this.#settings),
        Close: connection === undefined ? !this.shouldKeepAlive : /\bclose\b/i.test(connection),
      }, body, follows ? (length < 0 ? null : length) : undefined);
    } catch (error) {
      asked = Promise.reject(error);
    }
    asked.then(answer => this.#respond(answer), error => this.destroy(ofHTTP(error, 'socket hang up')));
  }
  #respond(answer) {
    if (this.destroyed) return;
    this.refreshTimeout();
    const response = new IncomingMessage(answer, this.#stream, this);
    this.res = response;
    response.once('close', () => { this.#rest(); this.destroy(); });
    response.once('end', () => this.#rest());
    if (!this.emit('response', response)) response.resume();
  }

  setTimeout(delay, callback) {
    if (callback) this.once('timeout', callback);
    this.#timeout = Number(delay);
    this.refreshTimeout();
    return this;
  }
  // refreshTimeout begins to wait anew, since something has come.
  refreshTimeout() {
    this.#rest();
    if (this.#timeout > 0 && !this.destroyed) this.#timer = setTimeout(() => { this.emit('timeout'); this.socket.emit('timeout'); }, this.#timeout);
  }
  #rest() { clearTimeout(this.#timer); }
  abort() {
    if (this.aborted) return;
    this.aborted = true;
    process.nextTick(() => this.emit('abort'));
    this.destroy();
  }
  _destroy(error, done) {
    this.#rest();
    if (!this.res) {
      error ??= hangUp();
      this.#stream.cancel();
    } else if (!this.res.complete) {
      this.res.destroy(error ?? undefined);
    }
    this.socket.destroyed = true;
    this.socket.emit('close', !!error);
    done(error);
  }
}

module.exports = protocol => {
  const secure = protocol === 'https:';
  const own = { protocol, Agent: secure ? SecureAgent : Agent };
  own.globalAgent = new own.Agent({ keepAlive: true, scheduling: 'lifo', timeout: 5000 });
  delete own.globalAgent.options.timeout;
  class Request extends ClientRequest {
    constructor(input, options, callback) { super(own, input, options, callback); }
  }
  const request = (input, options, callback) => new Request(input, options, callback);
  const nobody = what => function () { throw notHere(`${protocol.slice(0, -1)}.${what}`); };
  return {
    request, Agent: own.Agent, globalAgent: own.globalAgent, IncomingMessage, ClientRequest: Request, OutgoingMessage: Writable, STATUS_CODES, METHODS, maxHeaderSize: 16384,
    get(input, options, callback) { const made = request(input, options, callback); made.end(); return made; },
    createServer: nobody('createServer'), Server: nobody('Server'), ServerResponse: nobody('ServerResponse'),
    validateHeaderName() {}, validateHeaderValue() {},
  };
};
