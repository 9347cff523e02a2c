// _mock has the agents of undici that answer by themselves, for tests.
const wire = require('node:_wire');

const matches = (wanted, value) => (wanted instanceof RegExp ? wanted.test(value) : typeof wanted === 'function' ? wanted(value) === true : wanted === value);
const lowered = headers => {
  const all = {};
  const pairs = Array.isArray(headers) ? headers.flatMap((one, i) => (i % 2 ? [] : [[one, headers[i + 1]]])) : Object.entries(headers ?? {});
  for (const [name, value] of pairs) all[name.toLowerCase()] = String(value);
  return all;
};

module.exports = ({ Dispatcher, UndiciError, invalid, withQuery, payloadOf, read }) => {
  const unmatched = message => new UndiciError(message, 'MockNotMatchedError', 'UND_MOCK_ERR_MOCK_NOT_MATCHED');

  class MockInterceptor {
    #rule;
    #rules;
    #headers = {};
    #length = false;
    constructor(options, rules) {
      if (typeof options !== 'object') throw invalid('opts must be an object');
      if (options.path === undefined) throw invalid('opts.path must be defined');
      this.#rule = { ...options, method: typeof options.method === 'string' ? options.method.toUpperCase() : options.method ?? 'GET' };
      if (typeof options.path === 'string' && options.query) this.#rule.path = withQuery(options.path, options.query);
      this.#rules = rules;
    }
    #add(reply) {
      const rule = { ...this.#rule, reply, left: 1 };
      this.#rules.push(rule);
      const scope = {
        delay(ms) { rule.delay = ms; return scope; }, persist() { rule.left = Infinity; return scope; }, times(n) { rule.left = n; return scope; },
      };
      return scope;
    }
    reply(status, data = '', options = {}) {
      return this.#add(asked => {
        const made = typeof status === 'function' ? { data: '', responseOptions: {}, ...status(asked) } : { statusCode: status, data, responseOptions: options };
        if (made.statusCode === undefined) throw invalid('statusCode must be defined');
        const content = typeof made.data === 'function' ? made.data(asked) : made.data;
        return { statusCode: made.statusCode, content, headers: { ...this.#headers, ...made.responseOptions?.headers }, length: this.#length };
      });
    }
    replyWithError(error) { return this.#add(() => { throw error; }); }
    defaultReplyHeaders(headers) { this.#headers = headers; return this; }
    defaultReplyTrailers() { return this; }
    replyContentLength() { this.#length = true; return this; }
  }

  async function answer(rules, { origin, path, query, method = 'GET', headers, body }) {
    path = withQuery(path, query);
    const [payload] = await payloadOf(body);
    const sent = payload === undefined ? undefined : String(payload);
    const named = lowered(headers);
    let left = rules;
    for (const [what, fits] of [
      ['path', rule => matches(rule.path, path)], ['method', rule => matches(rule.method, method)], ['body', rule => rule.body === undefined || matches(rule.body, sent)],
      ['headers', rule => rule.headers === undefined || (typeof rule.headers === 'function' ? rule.headers(named) : Object.entries(rule.headers).every(([name, value]) => name.toLowerCase() in named && matches(value, named[name.toLowerCase()])))],
    ]) {
      left = left.filter(fits);
      if (left.length === 0) {
        const value = { path, method, body: sent, headers: JSON.stringify(headers) }[what];
        const on = what === 'path' || what === 'method' ? '' : ` on path '${path}'`;
        throw unmatched(`Mock dispatch not matched for ${what} '${value}'${on}`);
      }
    }
    const rule = left[0];
    if (--rule.left <= 0) rules.splice(rules.indexOf(rule), 1);
    if (rule.delay) await new Promise(done => setTimeout(done, rule.delay));
    const made = rule.reply({ origin, path, method, headers, body });
    const content = await made.content;
    const bytes = typeof content === 'object' && !ArrayBuffer.isView(content) && !(content instanceof ArrayBuffer) ? Buffer.from(JSON.stringify(content)) : wire.asBuffer(content);
    const all = { ...made.headers, ...(made.length ? { 'content-length': bytes.length } : {}) };
    const list = Object.entries(all).flatMap(([name, value]) => [].concat(value).flatMap(one => [name.toLowerCase(), Buffer.from(String(one)).toString('latin1')]));
    let left_ = bytes.length > 0;
    const source = {
      next: async () => { const now = left_; left_ = false; return now ? bytes : null; },
      rest: async () => { left_ = false; return bytes; }, cancel() {},
    };
    return { answer: { statusCode: made.statusCode, statusText: '', headers: list }, stream: source };
  }

  class MockPool extends Dispatcher {
    #agent;
    #rules = [];
    constructor(origin, { agent, ...options }) {
      super(origin, options);
      this.#agent = agent;
      this.origin = origin;
    }
    get rules() { return this.#rules; }
    get lenient() { return true; }
    intercept(options) { return new MockInterceptor(options, this.#rules); }
    exchange(url, options, more) { return this.#agent.exchange(url, options, more); }
  }
  class MockAgent extends Dispatcher {
    #pools = new Map();
    #active = true;
    #net = [() => true];
    #own;
    constructor(options = {}) {
      super(options);
      this.#own = options.agent ?? new Dispatcher(options);
    }
    get(origin) {
      const key = String(origin).toLowerCase().replace(/\/$/, '');
      if (!this.#pools.has(key)) this.#pools.set(key, new MockPool(key, { agent: this }));
      return this.#pools.get(key);
    }
    async exchange(url, options, more) {
      if (!this.#active) return this.#own.exchange(url, options, more);
      const { rules } = this.get(url.origin);
      try {
        return await answer(rules, { ...options, origin: url.origin, path: url.pathname + url.search, headers: Object.fromEntries(options.headers) });
      } catch (error) {
        if (error.code !== 'UND_MOCK_ERR_MOCK_NOT_MATCHED') throw error;
        if (this.#net.length === 0) throw unmatched(`${error.message}: subsequent request to origin ${url.origin} was not allowed (net.connect disabled)`);
        if (!this.#net.some(allowed => allowed(url.host))) throw unmatched(`${error.message}: subsequent request to origin ${url.origin} was not allowed (net.connect is not enabled for this origin)`);
        return this.#own.exchange(url, options, more);
      }
    }
    get lenient() { return true; }
    activate() { this.#active = true; }
    deactivate() { this.#active = false; }
    enableNetConnect(matcher) {
      this.#net = matcher === undefined ? [() => true] : [...this.#net.filter(one => one.named), Object.assign(host => matches(matcher, host), { named: true })];
    }
    disableNetConnect() { this.#net = []; }
    pendingInterceptors() { return [...this.#pools].flatMap(([origin, { rules }]) => rules.map(rule => ({ ...rule, origin, pending: true }))).filter(rule => rule.left !== Infinity); }
    assertNoPendingInterceptors() {
      const pending = this.pendingInterceptors();
      if (pending.length > 0) throw new UndiciError(`${pending.length} interceptor${pending.length > 1 ? 's are' : ' is'} pending`);
    }
  }
  return { MockAgent, MockPool, MockClient: MockPool };
};
