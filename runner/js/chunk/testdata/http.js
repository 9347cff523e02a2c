// http.js makes exchanges with language-http and with common's http, in Node and in QuickJS, and says what each came to.
(async (http, lib) => {
  const { argument: server, Buffer } = lib;
  const show = value => JSON.stringify(value, (key, v) => (key === 'duration' || key === 'date' ? 0 : key === 'headers' && v ? Object.fromEntries(Object.entries(v).sort()) : v));
  const failure = e => 'throws ' + show({ name: e.name, message: e.message, code: e.code, errno: e.errno, syscall: e.syscall, statusCode: e.statusCode, statusMessage: e.statusMessage, body: e.body, url: e.url, method: e.method, description: e.description, cause: e.cause?.message });
  const state = () => ({ configuration: { baseUrl: server }, data: { id: 5, name: 'ä' }, references: [] });
  const { get, post, put, patch, request, parseCsv, fn } = http;
  const common = http.http ?? {};
  const uses = {
    keys: () => Object.keys(http).sort().join(),
    get: () => get('/echo'),
    query: () => get('/echo?x=1', { query: { a: [1, 2], b: 'ä b', c: true, d: null, e: { f: 1 } } }),
    reference: () => get(s => `/echo/${s.data.id}`, { headers: { 'x-id': s => s.data.id } }),
    post: () => post('/echo', { body: { a: 1, l: [1] } }),
    postText: () => post('/echo', { body: 'plain', headers: { 'content-type': 'text/plain' } }),
    postReference: () => post('/echo', { body: s => s.data }),
    put: () => put('/echo', { body: { a: 1 } }), patch: () => patch('/echo', { body: { a: 1 } }), del: () => http.del('/echo'),
    form: () => post('/echo', { form: { a: 1, b: 'ä', c: { d: 1 } } }),
    auth: () => s => get('/echo')({ ...s, configuration: { baseUrl: server, username: 'u', password: 'p' } }),
    token: () => s => get('/echo')({ ...s, configuration: { baseUrl: server, access_token: 't' } }),
    missing: () => get('/status/404'), broken: () => get('/status/500'), mapped: () => get('/status/404', { errors: { 404: false } }), worded: () => get('/status/404', { errors: { 404: 'not there' } }),
    ignored: () => get('/status/418', { errors: false }), empty: () => get('/status/204'),
    redirect: () => get('/redirect/302'), redirected: () => get('/redirect/302', { maxRedirections: 3 }), redirectedPost: () => post('/redirect/303', { body: { a: 1 }, maxRedirections: 3 }), kept: () => post('/redirect/307', { body: { a: 1 }, maxRedirections: 3 }), many: () => get('/redirect/loop', { maxRedirections: 2 }),
    badJSON: () => get('/bad-json'), text: () => get('/text'), asText: () => get('/echo', { parseAs: 'text' }), asJSON: () => get('/text', { parseAs: 'json' }), base64: () => get('/bytes', { parseAs: 'base64' }),
    gzip: () => get('/encoded/gzip'), deflate: () => get('/encoded/deflate'), br: () => get('/encoded/br'),
    cookies: () => get('/cookies'), refused: () => get('http://127.0.0.1:1/x'), hangup: () => get('/hang-up'), slow: () => get('/slow', { timeout: 50 }), noHost: () => get('http://nowhere.invalid/'),
    absolute: () => get('https://elsewhere.example/x'), noBase: () => s => get('/x')({ ...s, configuration: {} }), badHeader: () => get('/echo', { headers: { x: 'ä\n' } }),
    request: () => request('OPTIONS', '/echo'), head: () => request('HEAD', '/echo'), callback: () => get('/echo', {}, s => ({ ...s, called: true })),
    common: () => common.get?.(server + '/echo', { query: { a: 1 } }), commonPost: () => common.post?.(server + '/echo', { a: 1 }, { headers: { x: '1' } }), commonMissing: () => common.get?.(server + '/status/404'),
    records: () => post('/echo', [{ a: 1 }]), numbers: () => post('/echo', [1, 2]), noRecords: () => post('/echo', []), linesOfText: () => post('/echo', ['a', 'b']), textsAndNull: () => post('/echo', ['a', null]),
    buffer: () => post('/echo', { body: Buffer.from('bytes') }),
  };
  const lines = [];
  for (const name of Object.keys(uses)) {
    let line;
    try {
      let made = await uses[name]();
      if (typeof made === 'function') made = await made(state());
      if (typeof made === 'function') made = await made(state());
      line = show(made);
    } catch (error) {
      line = failure(error);
    }
    lines.push(name + ' ' + line);
  }
  return lines;
})
