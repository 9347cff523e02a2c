// adaptors.js calls the operations of an adaptor, in Node and in QuickJS, and says what state each left.
(async (adaptor, lib) => {
  const [specifier, server] = lib.argument.split(' ');
  const show = value => JSON.stringify(value, (key, v) => (key === 'duration' || key === 'date' ? 0 : key === 'headers' && v ? Object.fromEntries(Object.entries(v).sort()) : typeof v === 'function' ? 'function' : v));
  const failure = e => 'throws ' + show({ name: e.name, message: e.message, code: e.code, description: e.description, fix: e.fix, statusCode: e.statusCode, body: e.body, url: e.url, method: e.method });
  const adaptors = {
    collections: () => {
      const c = adaptor.collections;
      const configuration = { collections_endpoint: server + '/collections', collections_token: 'secret' };
      return [configuration, {
        get: () => c.get('people', 'a'), missing: () => c.get('people', 'missing'), all: () => c.get('people', '*'), query: () => c.get('people', { key: 'p*', createdAfter: '20240101', limit: 2, pageSize: 1 }), reference: () => c.get(s => s.data.name, { key: s => s.data.key }), none: () => c.get('none', '*'), broken: () => c.get('broken', '*'),
        set: () => c.set('people', 'a', { x: 1 }), setMany: () => c.set('people', v => v.id, [{ id: 'a' }, { id: 'b' }]), setFew: () => c.set('people', 'a'), setBad: () => c.set('people', () => 5, [1]), setNone: () => c.set('none', 'a', 1), remove: () => c.remove('people', 'a'), removeMany: () => c.remove('people', { key: 'a*' }),
        each: () => c.each('people', '*', (s, value, key) => { (s.seen ??= []).push([key, value]); }), eachLimit: () => c.each('people', { key: '*', limit: 2 }, (s, value) => { s.last = value; }), noToken: () => s => c.get('people', 'a')({ ...s, configuration: { collections_endpoint: server } }),
        mock: () => async s => { const mock = c.createMockServer('https://mock.example'); mock.api.createCollection('m', { a: '1', b: '2' }); const r = await mock.request({ method: 'GET', path: '/collections/m' }); const one = await mock.request({ method: 'GET', path: 'collections/m/a' }); const gone = await mock.request({ method: 'DELETE', path: '/collections/m/a' }); return [r.statusCode, await r.body.json(), await one.body.json(), await gone.body.json(), mock.api.count('m')]; },
      }];
    },
    fhir: () => {
      const { get, post, create, createTransactionBundle, getClaim, request, fn } = adaptor;
      return [{ baseUrl: server, apiPath: 'fhir', username: 'u', password: 'p' }, {
        get: () => get('Patient/1'), query: () => get('Patient', { name: 'ä', _count: 2 }), reference: () => get(s => `Patient/${s.data.key}`), post: () => post('Observation', { a: 1 }), create: () => create('Patient', { name: [{ family: 'x' }] }), params: () => create('Patient', { a: 1 }, { query: { b: 2 } }),
        bundle: () => createTransactionBundle([{ request: { method: 'POST', url: 'Patient' } }]), claim: () => getClaim('7'), claims: () => getClaim(undefined, { status: 'active' }), request: () => request('PUT', 'Patient/1', { body: { id: '1' } }), del: () => request('DELETE', 'Patient/1'), callback: () => get('Patient', {}, {}, s => ({ ...s, called: true })), absolute: () => get('https://elsewhere.example/x'),
        missing: () => s => get('status/404')({ ...s, configuration: { baseUrl: server } }), token: () => s => get('Patient')({ ...s, configuration: { baseUrl: server, access_token: 't' } }), execute: () => adaptor.execute(get('Patient'), fn(s => ({ seen: s.data.url }))), badJSON: () => s => get('bad-json')({ ...s, configuration: { baseUrl: server } }),
      }];
    },
    openmrs: () => {
      const { get, create, update, upsert, destroy, http, fhir } = adaptor;
      return [{ instanceUrl: server, username: 'u', password: 'p' }, {
        get: () => get('patient/1'), list: () => get('patient', { query: 'x' }), pages: () => get('patient', { query: 'x', pageSize: 2, max: 3 }), limit: () => get('patient', { limit: 1 }), singleton: () => get('patient/1', { singleton: true }), language: () => get('concept', { language: 'fr', query: 'x' }), refused: () => get('patient/refused'), missing: () => get('patient/missing'), reference: () => get(s => `patient/${s.data.key}`),
        create: () => create('patient', { a: 1 }), update: () => update('patient/1', s => s.data), upsertFound: () => upsert('patient/1', { a: 1 }), upsertMissing: () => upsert('patient/missing', { a: 1 }), upsertOne: () => upsert('patient', { a: 1 }, { q: 'one' }), upsertMany: () => upsert('patient', { a: 1 }, { q: 'many' }), destroy: () => destroy('patient/1', { purge: true }),
        httpGet: () => http.get('/ws/rest/v1/patient/1'), httpPost: () => http.post('/ws/rest/v1/patient', { a: 1 }), httpRequest: () => http.request('PUT', '/ws/rest/v1/patient/1', { query: { b: 1 } }), httpDelete: () => http.delete?.('/ws/rest/v1/patient/1'), fhirGet: () => fhir.get('Patient', { name: 'x' }), noCredentials: () => s => get('patient')({ ...s, configuration: {} }),
      }];
    },
  };
  const [configuration, uses] = adaptors[specifier.replace(/^@openfn\/language-|@\d.*$/g, '')]();
  const lines = [];
  for (const name of Object.keys(uses)) {
    let line;
    try {
      const made = await uses[name]();
      line = show(typeof made === 'function' ? await made({ configuration, data: { name: 'people', key: 'a' }, references: [] }) : made);
    } catch (error) {
      line = failure(error);
    }
    lines.push((name + ' ' + line).replaceAll(server, 'SERVER'));
  }
  return lines;
})
