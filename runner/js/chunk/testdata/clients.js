// clients.js makes exchanges with a client of http, in Node and in QuickJS, and says what each came to.
(async (client, lib) => {
  const { Buffer, require } = lib;
  const [specifier, server] = lib.argument.split(' ');
  const { Readable } = require('node:stream');
  const all = async source => { const parts = []; for await (const part of source) parts.push(Buffer.from(part)); return Buffer.concat(parts).toString(); };
  const failure = e => 'throws ' + JSON.stringify([e.name, e.message, e.code, e.errno, e.type, e.status, e.response?.status]);
  const clients = {
    axios: () => {
      const axios = client.default ?? client;
      const told = r => [r.status, r.statusText, r.headers['content-type'], r.data];
      const get = (path, options) => axios.get(server + path, options).then(told);
      return {
        get: () => get('/echo', { params: { a: [1, 2], b: 'ä b', c: null } }), post: () => axios.post(server + '/echo', { a: 'ä' }).then(told), put: () => axios.put(server + '/echo', 'text', { headers: { 'Content-Type': 'text/plain' } }).then(told), params: () => axios.post(server + '/echo', new URLSearchParams({ a: 'b c' })).then(told),
        missing: () => get('/status/404'), allowed: () => get('/status/404', { validateStatus: () => true }), redirect: () => get('/redirect/302'), noRedirect: () => get('/redirect/302', { maxRedirects: 0 }), loop: () => get('/redirect/loop', { maxRedirects: 3 }), posted: () => axios.post(server + '/redirect/303', { a: 1 }).then(told), kept: () => axios.post(server + '/redirect/307', { a: 1 }).then(told),
        gzip: () => get('/encoded/gzip'), deflate: () => get('/encoded/deflate'), br: () => get('/encoded/br'), bytes: () => get('/bytes', { responseType: 'arraybuffer' }).then(r => [...r[3]]), stream: () => axios.get(server + '/streamed', { responseType: 'stream' }).then(r => all(r.data)), upload: () => axios.post(server + '/echo', Readable.from(['up', 'load'])).then(told),
        auth: () => get('/echo', { auth: { username: 'u', password: 'p' } }), instance: () => axios.create({ baseURL: server, headers: { 'X-A': '1' } }).request({ url: '/echo', method: 'patch', data: { x: 1 } }).then(told), timeout: () => get('/slow', { timeout: 40 }), abort: () => { const c = new AbortController(); setTimeout(() => c.abort(), 20); return get('/slow', { signal: c.signal }); },
        refused: () => axios.get('http://127.0.0.1:1/'), nobody: () => axios.get('http://nowhere.invalid/'), hangUp: () => get('/hang-up'), cut: () => get('/cut'), badJSON: () => get('/bad-json'), text: () => get('/text'), tooMuch: () => get('/long', { maxContentLength: 10 }), head: () => axios.head(server + '/text').then(told), interceptor: () => { const one = axios.create(); one.interceptors.request.use(c => { c.headers['X-I'] = 'yes'; return c; }); return one.get(server + '/echo').then(told); },
        form: () => axios.postForm(server + '/echo', { a: 1, b: 'x' }).then(r => r.status),
      };
    },
    'node-fetch': () => {
      const fetch = client.default ?? client;
      const told = async r => [r.status, r.statusText, r.ok, r.headers.get('content-type'), await r.text()];
      const get = (path, options) => fetch(server + path, options).then(told);
      return {
        get: () => get('/echo?x=1'), post: () => get('/echo', { method: 'POST', body: JSON.stringify({ a: 'ä' }), headers: { 'Content-Type': 'application/json' } }), params: () => get('/echo', { method: 'POST', body: new URLSearchParams({ a: 'b c' }) }), buffer: () => get('/echo', { method: 'PUT', body: Buffer.from('bytes') }), missing: () => get('/status/404'), empty: () => get('/status/204'),
        redirect: () => get('/redirect/302'), posted: () => get('/redirect/302', { method: 'POST', body: 'x' }), manual: () => get('/redirect/302', { redirect: 'manual' }), loop: () => get('/redirect/loop'), gzip: () => get('/encoded/gzip'), deflate: () => get('/encoded/deflate'), br: () => get('/encoded/br'), upload: () => get('/echo', { method: 'POST', body: Readable.from(['up', 'load']) }),
        stream: async () => all((await fetch(server + '/streamed')).body), bytes: async () => [...await (await fetch(server + '/bytes')).buffer()], json: async () => (await fetch(server + '/echo')).json(), badJSON: async () => (await fetch(server + '/bad-json')).json().catch(e => e.name), headers: async () => (await fetch(server + '/cookies')).headers.raw()['set-cookie'], abort: () => { const c = new AbortController(); setTimeout(() => c.abort(), 20); return get('/slow', { signal: c.signal }); },
        timeout: () => get('/slow', { timeout: 40 }), refused: () => fetch('http://127.0.0.1:1/'), nobody: () => fetch('http://nowhere.invalid/'), hangUp: () => get('/hang-up').catch(e => [e.name, e.code]), head: () => get('/text', { method: 'HEAD' }), tooMuch: () => get('/long', { size: 10 }), clone: async () => { const r = await fetch(server + '/text'); const c = r.clone(); return [await r.text(), await c.text()]; },
      };
    },
    superagent: () => {
      const told = r => [r.status, r.type, r.body, r.text];
      return {
        get: () => client.get(server + '/echo').query({ a: 1, b: ['x', 'y'] }).then(told), post: () => client.post(server + '/echo').send({ a: 'ä' }).then(told), form: () => client.post(server + '/echo').type('form').send({ a: 1, b: 2 }).then(told), header: () => client.get(server + '/echo').set('X-A', '1').auth('u', 'p').then(told), missing: () => client.get(server + '/status/404').then(told), broken: () => client.get(server + '/status/500').then(told),
        ok: () => client.get(server + '/status/404').ok(() => true).then(told), redirect: () => client.get(server + '/redirect/302').then(told), noRedirect: () => client.get(server + '/redirect/302').redirects(0).then(told), gzip: () => client.get(server + '/encoded/gzip').then(told), deflate: () => client.get(server + '/encoded/deflate').then(told), text: () => client.get(server + '/text').then(told), put: () => client.put(server + '/echo').send('text').type('text/plain').then(told), del: () => client.del(server + '/echo').then(told),
        refused: () => client.get('http://127.0.0.1:1/'), hangUp: () => client.get(server + '/hang-up'), timeout: () => client.get(server + '/slow').timeout(40).then(told).catch(e => [e.code, e.timeout]), callback: () => new Promise(done => client.get(server + '/echo').end((e, r) => done([e, r.body]))), agent: async () => { const agent = client.agent(); await agent.get(server + '/cookies'); return told(await agent.get(server + '/echo')); }, badJSON: () => client.get(server + '/bad-json').catch(e => [e.name, e.statusCode]), retry: () => client.get(server + '/status/503').retry(1).then(told),
        attach: () => client.post(server + '/echo').field('a', '1').attach('f', Buffer.from('bytes'), 'f.txt').then(r => r.status),
      };
    },
    'follow-redirects': () => {
      const go = (path, options = {}, body) => new Promise((done, fail) => {
        const request = client.http.request(server + path, options, async r => done([r.statusCode, r.responseUrl.replace(server, ''), r.redirects?.length, await all(r)]));
        request.on('error', fail).end(body);
      });
      return {
        get: () => go('/echo'), redirect: () => go('/redirect/302'), tracked: () => go('/redirect/301', { trackRedirects: true }), posted: () => go('/redirect/302', { method: 'POST' }, 'body'), kept: () => go('/redirect/307', { method: 'POST' }, 'body'), loop: () => go('/redirect/loop', { maxRedirects: 2 }), tooMuch: () => go('/echo', { method: 'POST', maxBodyLength: 2 }, 'body'),
        setTimeout: () => new Promise(done => { const r = client.http.get(server + '/slow'); r.on('error', () => {}); r.setTimeout(30, () => { r.destroy(); done('timeout'); }); }), refused: () => new Promise((done, fail) => client.http.get('http://127.0.0.1:1/').on('error', fail)), abort: () => new Promise(done => { const r = client.http.get(server + '/slow'); r.on('abort', () => done('aborted')).on('error', () => {}); setTimeout(() => r.abort(), 10); }),
      };
    },
  };
  const uses = clients[specifier.replace(/@.*/, '')]();
  const lines = [];
  for (const name of Object.keys(uses)) {
    let line;
    try {
      line = JSON.stringify(await Promise.race([uses[name](), new Promise(done => setTimeout(done, 30000, 'never ends'))]));
    } catch (error) {
      line = failure(error);
    }
    lines.push((name + ' ' + line).replaceAll(server, 'SERVER').replace(/127\.0\.0\.1:\d\d+/g, 'SERVER'));
  }
  return lines;
})
