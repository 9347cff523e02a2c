// tls.js asks servers over TLS, in Node and in QuickJS, and says what each came to.
(async (undici, lib) => {
  const { Buffer, require } = lib;
  const https = require('node:https');
  const t = JSON.parse(lib.argument);
  const words = text => text.replace(/^(write EPROTO )?[^]*(wrong version number)[^]*/, '$1$2');
  const failure = e => 'throws ' + JSON.stringify({ name: e.name, message: words(e.message), code: e.code, cause: e.cause && [e.cause.code, words(e.cause.message)] });
  const byUndici = (url, connect) => async () => (await undici.request(url, { dispatcher: new undici.Agent({ connect }) })).body.text();
  const byHTTPS = (url, options) => () => new Promise((done, fail) => https.get(url, options, async r => { let text = ''; for await (const part of r) text += part; done(text); }).on('error', fail));
  const byFetch = (url, connect) => async () => (await undici.fetch(url, { dispatcher: new undici.Agent({ connect }) })).text();
  const client = { ca: t.ca, cert: t.client.Cert, key: t.client.Key };
  const cases = {
    trusted: [t.good, { ca: t.ca }], trustedBuffer: [t.good, { ca: [Buffer.from(t.ca)] }], several: [t.good, { ca: [t.otherCA, t.ca] }], untrusted: [t.good, {}], otherCA: [t.good, { ca: t.otherCA }], unchecked: [t.good, { rejectUnauthorized: false }],
    self: [t.self, {}], selfUnchecked: [t.self, { rejectUnauthorized: false }], expired: [t.expired, { ca: t.ca }], wrong: [t.wrong, { ca: t.ca }], wrongUnchecked: [t.wrong, { ca: t.ca, rejectUnauthorized: false }], servername: [t.wrong, { ca: t.ca, servername: 'elsewhere.example' }], otherName: [t.good, { ca: t.ca, servername: 'clinic.example' }],
    mutual: [t.mutual, client], noText: [t.text.replace('http:', 'https:'), {}],
  };
  const lines = [];
  for (const [how, by] of Object.entries({ byUndici, byHTTPS, byFetch })) {
    for (const [name, [url, options]] of Object.entries(cases)) {
      lines.push(`${how} ${name} ` + await by(url, options)().catch(failure));
    }
    // A server may end the connection before or after the answer that it wants another certificate.
    for (const [name, options] of Object.entries({ none: { ca: t.ca }, stranger: { ca: t.ca, cert: t.stranger.Cert, key: t.stranger.Key } })) {
      lines.push(`${how} ${name} ` + await by(t.mutual, options)().then(() => 'is let in', () => 'is kept out'));
    }
  }
  lines.push('agent ' + await byHTTPS(t.mutual, { agent: new https.Agent(client) })());
  lines.push('badKey ' + await byHTTPS(t.mutual, { ...client, key: 'no key' })().catch(e => 'throws ' + e.name));
  return lines;
})
