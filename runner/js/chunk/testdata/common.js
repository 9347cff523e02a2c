// common.js uses what language-common exports, in Node and in QuickJS, and says what each use came to.
(async (common, lib) => {
  const { util, http, dateFns, _ } = common;
  const show = (value, depth = 0) => {
    if (typeof value === 'function') return 'function ' + value.name;
    if (typeof value === 'string') return JSON.stringify(value);
    if (value === null || typeof value !== 'object') return Object.is(value, -0) ? '-0' : String(value);
    if (depth > 8) return '…';
    const kind = Object.prototype.toString.call(value).slice(8, -1);
    if (value instanceof Error || kind === 'Error') {
      const own = Object.keys(value).filter(k => k !== 'stack').map(k => k + ':' + show(value[k], depth + 1));
      return `${value.name}: ${/^(TypeError|RangeError|SyntaxError|ReferenceError)$/.test(value.name) && !value.code ? '~' : value.message} {${own}}`;
    }
    if (kind === 'Date') return 'Date ' + (isNaN(value) ? 'invalid' : value.toISOString());
    if (Array.isArray(value)) return '[' + value.map(v => show(v, depth + 1)) + ']';
    return (kind === 'Object' ? '' : kind) + '{' + Object.keys(value).map(k => JSON.stringify(k) + ':' + show(value[k], depth + 1)) + '}';
  };
  const state = () => ({
    configuration: {}, index: 3, cursor: 7, references: [{ r: 1 }, 2], extra: [5, 6],
    data: { l: [1, 2], o: [{ n: 1, t: 'a' }, { n: 2, t: 'b' }, { n: 3, t: 'a' }], s: 'text', z: null, csv: 'id;name\n1;"a;b"\n2;c\n', deep: { er: { x: [{ y: 1 }, { y: [2, 3] }] } } },
  });
  const uses = {
    keys: () => Object.keys(common).sort(), default: () => Object.keys(common.default).sort(), utilKeys: () => Object.keys(util).sort(),
    httpKeys: () => Object.keys(http).sort(), dateFnsKeys: () => Object.keys(dateFns).sort(), betaKeys: () => Object.keys(common.beta),
    alterState: () => common.alterState(s => s.data.l), arrayToString: () => [common.arrayToString([1, [2]], '-'), common.arrayToString('abc')],
    as: () => common.as('k', s => ({ ...s, data: 1, more: 2 })), asData: () => [common.asData('$.data.l', state()), common.asData([1]), common.asData(s => s.index, state()), common.asData(5)],
    assert: () => common.assert(s => s.data.z, 'no z'), assert2: () => common.assert(1), beta: () => common.beta.each('$.data.l[*]', s => ({ ...s, sum: (s.sum ?? 0) + s.data })),
    chunk: () => [common.chunk([1, 2, 3], 2), common.chunk([], 2)], combine: () => common.combine(s => ({ ...s, a: 1 }), async s => ({ ...s, b: s.a })),
    composeNextState: () => common.composeNextState(state(), 5), cursor: () => common.cursor(5, { key: 'page' }), cursor2: () => common.cursor(s => s.cursor, { defaultValue: 1 }),
    cursor3: () => common.cursor('now', { format: d => typeof d.getTime() }), cursor4: () => common.cursor('start', { format: () => 'x', key: 'y' }), cursor5: () => common.cursor('3 days ago', { format: d => Math.round((Date.now() - d) / 864e5) }),
    cursor6: () => common.cursor('today', { format: d => d.getHours() }), cursor7: () => common.cursor('2 hours ago', { format: d => Math.round((Date.now() - d) / 36e5) }), cursor8: () => common.cursor('whenever'),
    dataPath: () => [common.dataPath('a.b'), common.dataPath('$.a')], dataValue: () => [common.dataValue('o[*].t')(state()), common.dataValue('o[?(@.n>1)].t')(state()), common.dataValue('..y')(state())],
    each: () => common.each('$.data.o[*]', s => ({ ...s, at: [...(s.at ?? []), s.index] })), execute: () => common.execute(s => ({ ...s, a: 1 }), s => s.a), field: () => common.field('a', 1), fields: () => common.fields(['a', 1], ['b', 2]),
    fn: () => common.fn(s => s.index), fnIf: () => common.fnIf(s => s.index, s => s.index), group: () => common.group(s => s.data.o, 't'), group2: () => common.group([{ a: { b: 1 } }, { a: { b: 2 } }, {}], 'a.b', s => s.data),
    humanProper: () => [common.humanProper('a_b-c dE'), common.humanProper(5)], index: () => common.index(), join: () => common.join('$.data.o[*]', '$.data.s', 'x'), jsonValue: () => [common.jsonValue({ a: [1, 2] }, '$.a[1]'), common.jsonValue([{ b: 1 }], '$[0].b')],
    lastReferenceValue: () => common.lastReferenceValue('r'), log: () => common.log(s => s.index), debug: () => common.debug(1), map: () => common.map('$.data.o[*]', (o, i) => o.n * i), merge: () => common.merge('$.data.o[*]', common.fields(common.field('x', common.dataValue('s')))),
    parseCsv: () => common.parseCsv('a,b\n1,2\n3,4\n'), parseCsv2: () => common.parseCsv(s => s.data.csv, { delimiter: ';' }), parseCsv3: () => common.parseCsv('a,b\n1,2\n3,4\n5,6', { chunkSize: 2 }, (s, rows) => ({ ...s, chunks: [...(s.chunks ?? []), rows] })),
    parseCsv4: () => common.parseCsv('a,b\n1', {}), parseCsv5: () => common.parseCsv('a\n"x', {}), parseCsv6: () => common.parseCsv('a', { chunkSize: 0 }), parseCsv7: () => common.parseCsv('x,y\n , \n\n 1 ,"2 "\n', { columns: false, trim: false, skip_empty_lines: false }),
    referencePath: () => common.referencePath('a'), scrubEmojis: () => [common.scrubEmojis('a😀b©'), common.scrubEmojis('😀', 'x'), common.scrubEmojis('')], source: () => common.source('$.data.o[?(@.t=="a")].n'), source2: () => common.source('$..n'), source3: () => common.source('$.data.l[-1:]'), source4: () => common.source('$.data.o[(@.length-1)].t'),
    source5: () => common.source('$.data.o[?(@.n>1 && @.t!="b")]'), source6: () => common.source('$.data.*~'), source7: () => common.source('$.data.o[0,2].n'), source8: () => common.source('$.data.o[*].n^'), source9: () => common.source('$.data.l[?(@property>0)]'), source10: () => common.source('$.data.o[?(@.n >'),
    sourceValue: () => common.sourceValue('$.data.deep.er.x[1].y'), splitKeys: () => common.splitKeys({ a: 1, b: 2 }, ['a']), toArray: () => [common.toArray(1), common.toArray([1])],
    validate: () => common.validate({ type: 'object', required: ['nope'], properties: { s: { type: 'number' } } }), validate2: () => common.validate({ $id: 'b', properties: { l: { items: { enum: [1] }, minItems: 3 } } }, 'data'),
    validate3: () => common.validate({ $id: 'c', $schema: 'https://json-schema.org/draft/2019-09/schema', type: 'object' }, 'data'), validate4: () => common.validate({ $id: 'd', $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', prefixItems: [] }, 'data'), validate5: () => common.validate({ $id: 'e', type: 'nope' }),
    validate6: () => common.validate(s => ({ $id: 'f', properties: { csv: { pattern: '^x', maxLength: 2 } } }), s => s.data),
    lodash: () => [_.uniq([1, 1, 2]), _.groupBy(['a', 'bb', 'c'], 'length'), _.get({ a: [{ b: 1 }] }, 'a[0].b'), _.merge({ a: { b: 1 } }, { a: { c: 2 } }), _.cloneDeep({ d: new Date(0), m: new Map([[1, 2]]) }), _.camelCase('foo bar-baz'), _.chain([3, 1, 2]).sortBy().map(n => n * 2).value(), _.isEqual({ a: [1] }, { a: [1] }), _.template === undefined, _.padStart('1', 3, '0'), _.deburr('äé'), _.words('fred, barney & co'), _.debounce.length, _.omit({ a: 1, b: 2 }, 'a'), _.orderBy([{ n: 2 }, { n: 1 }], ['n'], ['desc']), _.upperFirst('fOO'), _.truncate('hello world', { length: 8 }), _.escape('<a>')],
    template: () => _.template('hello <%= user %>')({ user: 'x' }),
    dateFns: () => [dateFns.format(new Date(86400000), "yyyy-MM-dd'T'HH:mm:ss EEEE do MMMM QQQ"), dateFns.parse('2024-02-29', 'yyyy-MM-dd', new Date(0)), dateFns.parse('nope', 'yyyy', new Date(0)), dateFns.format(new Date(0), 'PPPPpppp')],
    encode: () => [util.encode('héllo'), util.encode({ a: 1 })], decode: () => [util.decode('aMOpbGxv'), util.decode('eyJhIjoxfQ=='), util.decode('eyJhIjoxfQ==', { parseJson: false }), util.decode('W3g=')],
    basic: () => util.makeBasicAuthHeader('u', 'p:ä'), parseUrl: () => [util.parseUrl('/a/../b?x=1&x=2&y=a+b', 'https://example.org/base/'), util.parseUrl('https://EXAMPLE.org:443/ä?q=%20#h'), util.parseUrl('a', 'http://localhost:80')], parseUrl2: () => util.parseUrl('https://a.org/x', 'https://b.org'), parseUrl3: () => util.parseUrl('nope'),
    assertRelativeUrl: () => util.assertRelativeUrl('https://a'), assertRelativeUrl2: () => util.assertRelativeUrl('/a'), throwError: () => util.throwError(5, { description: 'd', fix: 'f', x: 1 }), expand: () => util.expandReferences(state(), s => s.index, { a: [s => s.extra[0]] }, /x/, lib.Buffer.from('b').length, null),
    agentKey: () => [util.generateAgentKey('b', { b: 1, a: { d: 1, c: 2 }, e: undefined }), util.generateAgentKey('b')], parseDate: () => [typeof util.parseDate('now'), util.parseDate('x'), util.parseDate('start', 5), util.parseDate('yesterday').getHours(), util.parseDate(5)],
    oauth: () => util.normalizeOauthConfig({ access_token: 'x', a: 1 }), oauth2: () => util.normalizeOauthConfig({ access_token: 'x', accessToken: 'y' }), uuid: () => /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/.test(util.uuid()),
    form: () => [...util.encodeFormBody({ a: 1, b: { c: 2 }, d: null, e: undefined, f: 'x' }).entries()], logResponse: () => util.logResponse({ method: 'GET', url: 'u', statusCode: 200, duration: 1, query: { a: 1 } }), consts: () => [util.ERROR_ABSOLUTE_URL, util.ERROR_URL_MISMATCH],
    httpOptions: () => { const o = http.options({ headers: { a: 1 } }); return [o.json(), o.basic('u', 'p'), o.bearer('t'), o.oauth('t')].map(x => JSON.stringify(x)); },
    httpGet: () => typeof http.get('x') + typeof http.post('x') + typeof http.request('GET', 'x'),
  };
  const lines = [];
  for (const name of Object.keys(uses)) {
    let line;
    try {
      let made = await uses[name]();
      const before = state();
      if (typeof made === 'function') made = await made(before);
      line = show(made) + (show(before) === show(state()) ? '' : ' leaves ' + show(before));
    } catch (error) {
      line = 'throws ' + show(error);
    }
    lines.push(name + ' ' + line);
  }
  return lines;
})
