// Tests of language-common: each exported name, those of util, http and beta, of dateFns and of lodash. A name that is
// not read of the package in a test is one without a test.
const used = new Set();
const named = { '': real, 'util.': real.util, 'http.': real.http, 'beta.': real.beta, 'dateFns.': real.dateFns, '_.': real._ };
const common = covered(real, '', used);
const util = covered(real.util, 'util.', used), http = covered(real.http, 'http.', used), beta = covered(real.beta, 'beta.', used), dateFns = covered(real.dateFns, 'dateFns.', used), _ = covered(real._, '_.', used);

const start = () => ({
  configuration: {}, references: [], index: 2,
  data: { list: [{ n: 1, t: 'a' }, { n: 2, t: 'b' }], name: 'ä', nothing: null, deep: { er: [1, [2, 3]] } },
});
// apply calls an operation, or returns what is none.
const apply = async (made, state = start()) => (typeof made === 'function' ? made(state) : made);

describe('state', () => {
  it('execute', async () => { expect((await common.execute(s => ({ ...s, a: 1 }), async s => ({ ...s, b: s.a + 1 }))({ data: {} })).b).to.equal(2); });
  it('alterState', async () => { expect((await apply(common.alterState(s => ({ x: s.data.name })))).x).to.equal('ä'); });
  it('fn', async () => { expect(await apply(common.fn(s => ({ n: s.index })))).to.eql({ n: 2 }); });
  it('fnIf', async () => { expect(await apply(common.fnIf(s => s.index > 1, () => ({ y: 1 })))).to.eql({ y: 1 }); expect((await apply(common.fnIf(false, () => ({})))).index).to.equal(2); });
  it('each', async () => { expect((await apply(common.each('$.data.list[*]', s => ({ ...s, seen: [...(s.seen ?? []), [s.index, s.data.n]] })))).seen).to.eql([[0, 1], [1, 2]]); });
  it('each of a function, and of what is no list', async () => { expect((await apply(common.each(s => s.data.list, s => ({ ...s, last: s.data.t })))).last).to.equal('b'); await expect(apply(common.each(5, s => s))).reject(TypeError); });
  it('beta.each', async () => { expect((await apply(beta.each('$.data.list[*]', s => ({ ...s, sum: (s.sum ?? 0) + s.data.n })))).sum).to.equal(3); });
  it('combine', async () => { expect((await apply(common.combine(s => ({ ...s, a: 1 }), s => ({ ...s, b: s.a })))).b).to.equal(1); });
  it('composeNextState', () => { const next = common.composeNextState(start(), 5); expect(next.data).to.equal(5); expect(next.references.length).to.equal(1); });
  it('as', async () => { const state = await apply(common.as('kept', s => ({ ...s, data: 7 }))); expect(state.kept).to.equal(7); expect(state.data.name).to.equal('ä'); });
  it('assert', async () => { expect((await apply(common.assert(s => s.index === 2))).index).to.equal(2); await expect(apply(async () => common.assert(s => s.data.nothing, 'nothing is there')(start()))).reject('nothing is there'); });
  it('log and debug', async () => { await apply(common.log('x', s => s.index)); await apply(common.debug('y')); });
  it('cursor', async () => {
    expect((await apply(common.cursor(5, { key: 'page' }))).page).to.equal(5);
    expect((await apply(common.cursor(s => s.nothing, { defaultValue: 'd', key: 'other' }))).other).to.equal('d');
    expect((await apply(common.cursor('now', { format: d => typeof d.getTime() }))).cursor).to.equal('number');
  });
  it('group', async () => { expect((await apply(common.group(s => s.data.list, 't'))).data).to.eql({ a: [{ n: 1, t: 'a' }], b: [{ n: 2, t: 'b' }] }); });
  it('map', async () => { expect((await apply(common.map('$.data.list[*]', (one, i) => one.n + i))).data).to.eql([1, 3]); });
  it('validate', async () => {
    const failed = await apply(common.validate({ $id: 'strict', type: 'object', properties: { name: { type: 'number' } } }));
    expect(failed.validationErrors.length).to.equal(1);
    expect((await apply(common.validate({ $id: 'lenient', type: 'object' }))).validationErrors).to.eql([]);
  });
  it('parseCsv', async () => {
    expect((await apply(common.parseCsv('a,b\n1,2\n'))).data).to.eql([{ a: '1', b: '2' }]);
    expect((await apply(common.parseCsv('a\n1\n2\n3', { chunkSize: 2 }, (s, rows) => ({ ...s, sizes: [...(s.sizes ?? []), rows.length] })))).sizes).to.eql([2, 1]);
    await expect(apply(common.parseCsv('a', { chunkSize: 0 }))).reject();
  });
  it('default', () => { expect(common.default.fn).to.be.a('function'); });
});

describe('references', () => {
  it('source and sourceValue', () => { expect(common.source('$.data.list[*].n')(start())).to.eql([1, 2]); expect(common.sourceValue('$.data.deep.er[1][0]')(start())).to.equal(2); });
  it('dataPath and dataValue', () => { expect(common.dataPath('a.b')).to.equal('$.data.a.b'); expect(common.dataValue('list[?(@.n>1)].t')(start())).to.equal('b'); });
  it('referencePath and lastReferenceValue', () => { expect(common.referencePath('a')).to.a('string'); expect(common.lastReferenceValue('r')({ references: [{ r: 'first' }, 2] })).to.equal('first'); });
  it('asData', () => { expect(common.asData('$.data.list', start())).to.be.an('array'); expect(common.asData([1], start())).to.eql([1]); expect(common.asData(s => [s.index], start())).to.eql([2]); });
  it('index', () => { expect(common.index()(start())).to.equal(2); });
  it('field and fields', () => { expect(common.fields(common.field('a', 1), ['b', 2])).to.eql({ a: 1, b: 2 }); });
  it('join', () => { expect(common.join('$.data.list[*]', '$.data.name', 'name')(start())[1].name).to.equal('ä'); });
  it('merge', () => { expect(common.merge('$.data.list[*]', common.fields(common.field('of', s => s.data.name)))(start())[0].of).to.equal('ä'); });
  it('jsonValue', () => { expect(common.jsonValue({ a: [1, { b: 2 }] }, 'a[1].b')).to.equal(2); });
});

describe('values', () => {
  it('arrayToString', () => { expect(common.arrayToString([1, 2], '-')).to.equal('1-2'); });
  it('toArray', () => { expect([common.toArray(1), common.toArray([1])]).to.eql([[1], [1]]); });
  it('chunk', () => { expect(common.chunk([1, 2, 3], 2)).to.eql([[1, 2], [3]]); });
  it('humanProper', () => { expect(common.humanProper('first_name-of it')).to.equal('First Name Of It'); expect(common.humanProper(5)).to.equal(5); });
  it('splitKeys', () => { expect(common.splitKeys({ a: 1, b: 2 }, ['a'])).to.eql([{ b: 2 }, { a: 1 }]); });
  it('scrubEmojis', () => { expect(common.scrubEmojis('a😀b', '-')).to.equal('a-b'); });
  it('util, http, dateFns and lodash', () => { for (const one of [common.util, common.http, common.beta, common.dateFns, common._]) expect(one).to.be.ok; });
});

describe('util', () => {
  it('encode and decode', () => { expect(util.encode('ä')).to.equal('w6Q='); expect(util.decode('w6Q=')).to.equal('ä'); expect(util.decode(util.encode({ a: 1 }))).to.eql({ a: 1 }); });
  it('makeBasicAuthHeader', () => { expect(util.makeBasicAuthHeader('u', 'p')).to.eql({ Authorization: 'Basic dTpw' }); });
  it('parseUrl', () => { expect(util.parseUrl('/a?b=1', 'https://h.org')).to.include({ baseUrl: 'https://h.org', path: '/a' }); expect(() => util.parseUrl('https://a.org', 'https://b.org')).to.throw(util.ERROR_URL_MISMATCH); });
  it('assertRelativeUrl', () => { expect(() => util.assertRelativeUrl('https://a')).to.throw(); expect(util.ERROR_ABSOLUTE_URL).to.be.ok; util.assertRelativeUrl('/a'); });
  it('throwError', () => { expect(() => util.throwError('CODE', { description: 'd', fix: 'f' })).to.throw(/CODE|d/); });
  it('expandReferences', () => { expect(util.expandReferences(start(), s => s.index, { a: [s => s.data.name] }, null)).to.eql([2, { a: ['ä'] }, null]); });
  it('generateAgentKey', () => { expect(util.generateAgentKey('h', { b: 1, a: 2 })).to.equal(util.generateAgentKey('h', { a: 2, b: 1 })); });
  it('normalizeOauthConfig', () => { expect(util.normalizeOauthConfig({ access_token: 't' })).to.include({ access_token: 't' }); });
  it('parseDate', () => { expect(util.parseDate('now')).to.be.instanceOf(Date); expect(util.parseDate('some text')).to.equal('some text'); });
  it('uuid', () => { expect(util.uuid()).to.match(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/); });
  it('encodeFormBody', () => { expect([...util.encodeFormBody({ a: 1, b: 'x' }).entries()].map(String)).to.eql(['a,1', 'b,x']); });
  it('logResponse', () => { expect(util.logResponse({ method: 'GET', url: 'u', statusCode: 200, duration: 1 })).to.be.ok; });
  it('get, post, put, del and request', async () => {
    for (const [name, ask] of Object.entries({ GET: util.get, POST: util.post, PUT: util.put, DELETE: util.del })) {
      const options = { query: { q: 1 }, parseAs: 'json' };
      const answer = await (name === 'GET' ? ask(server + '/echo', options) : ask(server + '/echo', { a: 1 }, options));
      expect([answer.statusCode, answer.body.method, answer.body.url]).to.eql([200, name, '/echo?q=1']);
    }
    expect((await util.request('PATCH', server + '/echo', { body: 'x' })).statusCode).to.equal(200);
    await expect(util.get(server + '/status/404')).reject(/404/);
    expect((await util.get(server + '/status/404', { errors: { 404: false } })).statusCode).to.equal(404);
  });
  it('enableMockClient', async () => {
    const client = util.enableMockClient('https://mock.example');
    client.intercept({ path: '/a', method: 'GET' }).reply(200, { a: 1 });
    client.intercept({ path: '/b', method: 'POST', body: '{"x":1}' }).reply(500, 'no');
    expect((await util.get('https://mock.example/a', { parseAs: 'json' })).body).to.eql({ a: 1 });
    await expect(util.post('https://mock.example/b', { x: 1 })).reject(/500/);
    await expect(util.get('https://mock.example/none')).reject();
  });
});

describe('http', () => {
  it('get, post and request', async () => {
    expect((await apply(http.get(server + '/echo', { query: { a: 1 } }))).data.url).to.equal('/echo?a=1');
    expect((await apply(http.post(server + '/echo', { a: 1 }, http.options().json()))).data.body).to.equal('{"a":1}');
    expect((await apply(http.request('PUT', server + '/echo', { body: s => s.data.name }))).data.method).to.equal('PUT');
    await expect(apply(http.get(server + '/status/500'))).reject(/500/);
  });
  it('options', () => { const made = http.options({ headers: { a: 1 } }); expect(made.basic('u', 'p').headers.Authorization).to.equal('Basic dTpw'); expect(made.bearer('t').headers.Authorization).to.equal('Bearer t'); });
});

describe('dateFns', () => {
  it('format and parse', () => {
    expect(dateFns.format(new Date(2024, 1, 29, 13, 5), 'yyyy-MM-dd HH:mm EEEE do QQQ')).to.equal('2024-02-29 13:05 Thursday 29th Q1');
    expect(dateFns.parse('29.02.2024', 'dd.MM.yyyy', new Date(0)).getMonth()).to.equal(1);
    expect(isNaN(dateFns.parse('x', 'yyyy', new Date(0)))).to.be.true;
  });
  const next = random(2);
  const patterns = ['yyyy', 'yy', 'MMMM', 'MMM', 'dd', 'd', 'EEEE', 'EEE', 'HH', 'hh a', 'mm', 'ss', 'SSS', 'DDD', 'w', 'Q', 'QQQQ', 'G', 'T', 'do', 'P', 'PPPP', 'p', 'RRRR', 'I', 'i', 'e', 'B', 'bbb', "'o''clock'"];
  for (let i = 0; i < 200; i++) {
    const date = new Date(Math.floor(next() * 4e12) - 1e12);
    const pattern = Array.from({ length: 3 }, () => patterns[Math.floor(next() * patterns.length)]).join(' ');
    it(`format ${date.toISOString()} as ${pattern}`, () => { said.push(dateFns.format(date, pattern)); said.push(show(dateFns.parse(dateFns.format(date, 'yyyy-MM-dd HH:mm:ss'), 'yyyy-MM-dd HH:mm:ss', new Date(0)))); });
  }
});

describe('lodash', () => {
  it('sums', () => { expect(_.sum([1, 2])).to.equal(3); });
  // These are of chance or of time, or change lodash itself.
  const byHand = {
    now: () => typeof _.now(), random: () => _.random(3, 3), uniqueId: () => typeof _.uniqueId('x'), sample: () => _.sample([7]), sampleSize: () => _.sampleSize([7], 1), shuffle: () => _.shuffle([7]), noConflict: () => typeof _.noConflict, runInContext: () => typeof _.runInContext,
    mixin: () => typeof _.mixin, debounce: () => typeof _.debounce(() => {}), throttle: () => typeof _.throttle(() => {}), delay: () => typeof _.delay, defer: () => typeof _.defer, template: () => _.template('a <%= b %>')({ b: 1 }), VERSION: () => _.VERSION, templateSettings: () => Object.keys(_.templateSettings).sort(),
  };
  const next = random(1);
  const pick = list => list[Math.floor(next() * list.length)];
  const values = (depth, dates) => pick([
    () => Math.floor(next() * 20) - 5, () => next() * 10, () => pick(['', 'a', 'fooBar baz', 'Ä ö', 'a.b[0]', '12', 'x-y_z', '<b>&']), () => pick([true, false, null, undefined]), () => (dates ? new Date(Math.floor(next() * 1e12)) : 7),
    () => Array.from({ length: Math.floor(next() * 5) }, () => (depth > 0 ? values(depth - 1, dates) : Math.floor(next() * 5))), () => Object.fromEntries(Array.from({ length: Math.floor(next() * 4) }, () => [pick(['a', 'b', 'n', 'length2']), depth > 0 ? values(depth - 1, dates) : 1])),
    () => Array.from({ length: 3 }, () => ({ n: Math.floor(next() * 4), a: pick(['x', 'y']) })), () => pick([(v) => v, (v) => v?.n, (a, b) => a + b, (v) => v > 1, () => true]), () => pick([/a/g, 'n', ['a', 'b'], { n: 1 }]),
  ])();
  const withDates = /^(is|clone|sort|order|merge|find|filter|pick|omit|get)/; // not what makes texts of them: those are the engine's
  for (const name of Object.keys(real._).sort()) {
    it(name, () => {
      if (Object.hasOwn(byHand, name)) return void said.push(`${name} ${show(byHand[name]())}`);
      for (let i = 0; i < 12; i++) {
        const args = Array.from({ length: 1 + Math.floor(next() * 3) }, () => values(2, withDates.test(name)));
        let came;
        try {
          came = _[name](...args);
          if (came instanceof Error) came = 'error ' + came.name;
          else if (typeof came === 'function') came = 'function ' + (i % 2 ? show(came(args[0], 2)) : '');
          else if (came instanceof real._ || typeof came?.value === 'function') came = show(came.value());
        } catch (error) {
          came = 'throws ' + error.name;
        }
        said.push(`${name} ${show(args)} ${show(came)}`);
      }
    });
  }
});

return async () => {
  const lines = await run();
  const missing = Object.entries(named).flatMap(([prefix, module]) => Object.keys(module).map(name => prefix + name)).filter(name => !used.has(name));
  for (const name of missing) lines.push('fails no test for ' + name);
  const counts = Object.entries(named).map(([prefix, module]) => `${Object.keys(module).length} of ${prefix || 'language-common'}`);
  return [...lines, ...said, `${used.size} names with a test: ${counts.join(', ')}`];
};
