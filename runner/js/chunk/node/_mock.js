// _mock has the agents of undici that answer by themselves, for tests.
const web = require('node:_web');
const wire = require('node:_wire');
const { STATUS_CODES } = require('node:http');

const matches = (wanted, value) => (wanted instanceof RegExp ? wanted.test(value) : typeof wanted === 'function' ? wanted(value) === true : typeof wanted === 'string' && wanted === value);
const lowered = headers => Object.fromEntries(Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]));
// sorted has what a query asks for in the order of the alphabet.
const sorted = path => {
  const [name, query, ...more] = typeof path === 'string' ? path.split('?', 3) : [];
  if (query === undefined || more.length > 0) return path;
  const params = new web.URLSearchParams(query);
  params.sort();
  return name + '?' + params;
};
const bytesOf = data => (ArrayBuffer.isView(data) || data instanceof ArrayBuffer ? wire.asBuffer(data) : Buffer.from(typeof data === 'object' ? JSON.stringify(data) : data ? data.toString() : ''));

module.exports = ({ Dispatcher, UndiciError, invalid, withQuery }) => {
  const unmatched = message => new UndiciError(message, 'MockNotMatchedError', 'UND_MOCK_ERR_MOCK_NOT_MATCHED');

  class MockInterceptor {
    #rule;
    #rules;
    #headers = {};
    #length = false;
    constructor(options, rules) {
      if (typeof options !== 'object') throw invalid('opts must be an object');
      if (options.path === undefined) throw invalid('opts.path must be defined');
      const { path, query, method = 'GET', body, headers } = options;
      this.#rule = { path, method: typeof method === 'string' ? method.toUpperCase() : method, body, headers, query };
      if (typeof path === 'string') {
        const { pathname, search } = new web.URL(path, 'data://');
        this.#rule.path = query ? withQuery(path, query) : pathname + search;
      }
      this.#rules = rules;
    }
    #add(reply) {
      const rule = { ...this.#rule, reply, times: 1, timesInvoked: 0, persist: false, consumed: false, pending: true };
      this.#rules.push(rule);
      this.#rules.total = (this.#rules.total ?? 0) + 1;
      const scope = { delay(ms) { rule.delay = ms; return scope; }, persist() { rule.persist = true; return scope; }, times(n) { rule.times = n; return scope; } };
      return scope;
    }
    #answer({ statusCode, data, responseOptions }) {
      if (statusCode === undefined) throw invalid('statusCode must be defined');
      if (typeof responseOptions !== 'object' || responseOptions === null) throw invalid('responseOptions must be an object');
      return { statusCode, data, headers: { ...this.#headers, ...(this.#length ? { 'content-length': bytesOf(data).length } : {}), ...responseOptions.headers } };
    }
    reply(status, data = '', responseOptions = {}) {
      if (typeof status !== 'function') {
        const answer = this.#answer({ statusCode: status, data, responseOptions });
        return this.#add(() => answer);
      }
      return this.#add(asked => {
        const made = status(asked);
        if (typeof made !== 'object' || made === null) throw invalid('reply options callback must return an object');
        return this.#answer({ data: '', responseOptions: {}, ...made });
      });
    }
    replyWithError(error) { return this.#add(() => { throw error; }); }
    defaultReplyHeaders(headers) { this.#headers = headers; return this; }
    defaultReplyTrailers() { return this; }
    replyContentLength() { this.#length = true; return this; }
  }

  // ruleFor returns the first rule that is for a request, and calls it used.
  function ruleFor(rules, { path, query, method, headers, body }) {
    path = sorted(query ? withQuery(path, query) : path);
    const named = Array.isArray(headers) ? Object.fromEntries(headers.flatMap((one, i) => (i % 2 ? [] : [[one, headers[i + 1]]]))) : headers;
    const value = name => (typeof named?.get === 'function' ? named.get(name) : lowered(named)[name.toLowerCase()]);
    let left = rules.filter(rule => !rule.consumed);
    for (const [what, fits] of [
      ['path', rule => matches(sorted(rule.path), path)], ['method', rule => matches(rule.method, method)], ['body', rule => rule.body === undefined || matches(rule.body, body)],
      ['headers', rule => rule.headers === undefined || (typeof rule.headers === 'function' ? rule.headers(lowered(named)) : typeof headers === 'object' && Object.entries(rule.headers).every(([name, wanted]) => matches(wanted, value(name))))],
    ]) {
      left = left.filter(fits);
      if (left.length === 0) {
        const asked = { path, method, body, headers: typeof headers === 'object' ? JSON.stringify(headers) : headers }[what];
        throw unmatched(`Mock dispatch not matched for ${what} '${asked}'${what === 'path' ? '' : ` on path '${path}'`}`);
      }
    }
    const [rule] = left;
    rule.timesInvoked++;
    rule.pending = rule.timesInvoked < rule.times;
    return rule;
  }

  async function answer(rules, asked) {
    const rule = ruleFor(rules, asked);
    const used = () => {
      rule.consumed = !rule.persist && !rule.pending;
      if (rule.consumed && rules.includes(rule)) rules.splice(rules.indexOf(rule), 1);
    };
    let made;
    try {
      made = rule.reply(asked);
    } finally {
      used();
    }
    if (rule.delay) await new Promise(done => setTimeout(done, rule.delay));
    const { statusCode, data, headers } = made;
    const bytes = bytesOf(await (typeof data === 'function' ? data(asked) : data));
    const list = Object.entries(headers).flatMap(([name, value]) => [].concat(value).flatMap(one => [name.toLowerCase(), Buffer.from(String(one)).toString('latin1')]));
    let left = bytes.length > 0;
    const take = rest => { const now = left; left = false; return now || rest ? bytes : null; };
    return { answer: { statusCode, statusText: STATUS_CODES[statusCode] ?? 'unknown', headers: list }, stream: { next: async () => take(false), rest: async () => take(true), cancel() {} } };
  }

  class MockPool extends Dispatcher {
    #agent;
    constructor(origin, { agent, rules = [], ...options }) {
      super(origin, options);
      this.#agent = agent;
      this.origin = origin;
      this.rules = rules;
    }
    get mocks() { return true; }
    intercept(options) { return new MockInterceptor(options, this.rules); }
    cleanMocks() { this.rules.length = 0; }
    exchange(url, options, more) { return this.#agent.exchange(url, options, more, this); }
    async close() { this.#agent._forget(this); }
  }
  class MockAgent extends Dispatcher {
    #pools = new Map();
    #active = true;
    #net = true;
    #own;
    constructor(options = {}) {
      super(options);
      this.#own = options.agent ?? new Dispatcher(options);
    }
    get(origin) {
      const key = origin instanceof web.URL ? origin.origin : typeof origin === 'string' ? origin.toLowerCase() : origin;
      let pool = this.#pools.get(key);
      if (!pool) {
        const like = typeof key === 'string' ? [...this.#pools].find(([wanted]) => typeof wanted !== 'string' && matches(wanted, key))?.[1] : undefined;
        pool = new MockPool(typeof key === 'string' ? key : 'http://localhost:9999', { agent: this, rules: like?.rules });
        this.#pools.set(key, pool);
      }
      return pool;
    }
    async exchange(url, options, more, pool = this.get(url.origin)) {
      const { rules } = pool;
      if (!this.#active) return this.#own.exchange(url, options, more);
      try {
        return await answer(rules, options.asked ?? { origin: url.origin, path: url.pathname + url.search, method: options.method, headers: Object.fromEntries(options.headers), body: options.body });
      } catch (error) {
        if (error?.code !== 'UND_MOCK_ERR_MOCK_NOT_MATCHED') throw error;
        const left = `, ${rules.filter(rule => !rule.consumed).length} interceptor(s) remaining out of ${rules.total ?? rules.length} defined`;
        if (this.#net === false) throw unmatched(`${error.message}: subsequent request to origin ${url.origin} was not allowed (net.connect disabled)${left}`);
        if (this.#net !== true && !this.#net.some(allowed => matches(allowed, url.host))) throw unmatched(`${error.message}: subsequent request to origin ${url.origin} was not allowed (net.connect is not enabled for this origin)${left}`);
        return this.#own.exchange(url, options, more);
      }
    }
    get mocks() { return true; }
    get isMockActive() { return this.#active; }
    activate() { this.#active = true; }
    deactivate() { this.#active = false; }
    enableNetConnect(matcher) {
      if (matcher === undefined) this.#net = true;
      else if (['string', 'function'].includes(typeof matcher) || matcher instanceof RegExp) this.#net = Array.isArray(this.#net) ? [...this.#net, matcher] : [matcher];
      else throw invalid('Unsupported matcher. Must be one of String|Function|RegExp.');
    }
    disableNetConnect() { this.#net = false; }
    pendingInterceptors() { return [...this.#pools].flatMap(([origin, { rules }]) => rules.map(rule => ({ ...rule, origin }))).filter(rule => rule.pending); }
    assertNoPendingInterceptors() {
      const pending = this.pendingInterceptors();
      if (pending.length > 0) throw new UndiciError(`${pending.length} interceptor${pending.length > 1 ? 's are' : ' is'} pending`);
    }
    _forget(pool) { for (const [key, one] of this.#pools) if (one === pool) this.#pools.delete(key); }
    async close() { this.#pools.clear(); }
  }
  return { MockAgent, MockPool, MockClient: MockPool };
};
