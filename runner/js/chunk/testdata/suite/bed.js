// bed.js is what a file of tests is executed with, in Node and in QuickJS: describe, it, hooks and expect, as far as the
// suites of adaptors use mocha and chai. run says what each test came to.
const bed = () => {
  const tests = [];
  const path = [];
  const hooks = { beforeEach: [], afterEach: [] };
  const describe = (name, make) => {
    path.push(name);
    const before = [hooks.beforeEach.length, hooks.afterEach.length];
    make();
    [hooks.beforeEach.length, hooks.afterEach.length] = before;
    path.pop();
  };
  const it = (name, test) => tests.push({ name: [...path, name].join(' › '), test, before: [...hooks.beforeEach], after: [...hooks.afterEach] });

  const show = value => {
    if (typeof value === 'function') return 'a function';
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    if (value === null || typeof value !== 'object') return typeof value === 'string' ? JSON.stringify(value) : Object.is(value, -0) ? '-0' : String(value);
    if (Array.isArray(value)) return '[' + value.map(show).join() + ']';
    const kind = Object.prototype.toString.call(value).slice(8, -1);
    if (kind === 'Date') return 'Date ' + (isNaN(value) ? 'invalid' : value.toISOString());
    const entries = kind === 'Map' || kind === 'Set' ? [...value].map(show) : Object.keys(value).sort().map(key => JSON.stringify(key) + ':' + show(value[key]));
    return (kind === 'Object' ? '' : kind) + '{' + entries.join() + '}';
  };
  const fail = message => { throw Object.assign(new Error(message), { name: 'AssertionError' }); };

  function expect(value) {
    let not = false;
    const check = (good, what) => { if (good === not) fail(`${show(value)} is ${not ? '' : 'not '}${what}`); return made; };
    const throws = (error, wanted) => (wanted === undefined ? true : wanted instanceof RegExp ? wanted.test(error.message) : typeof wanted === 'string' ? error.message.includes(wanted) : error instanceof wanted);
    const made = {
      get not() { not = true; return made; },
      eql: wanted => check(show(value) === show(wanted), `eql ${show(wanted)}`), equal: wanted => check(value === wanted, `equal to ${show(wanted)}`),
      a: kind => check(typeof value === kind || (kind === 'array' && Array.isArray(value)), `a ${kind}`), instanceOf: kind => check(value instanceof kind, `an instance of ${kind.name}`),
      include: part => check(typeof part === 'object' ? Object.keys(part).every(key => show(value[key]) === show(part[key])) : value.includes(part), `with ${show(part)}`),
      match: pattern => check(pattern.test(value), `like ${pattern}`), property: name => check(name in value, `with ${name}`), length: n => check(value.length === n, `${n} long`),
      get true() { return check(value === true, 'true'); }, get false() { return check(value === false, 'false'); }, get null() { return check(value === null, 'null'); },
      get undefined() { return check(value === undefined, 'undefined'); }, get ok() { return check(!!value, 'truthy'); },
      throw(wanted) {
        let error;
        try { value(); } catch (thrown) { error = thrown; }
        return check(error !== undefined && throws(error, wanted), `a function that throws ${wanted}`);
      },
      async reject(wanted) {
        const error = await Promise.resolve(value).then(() => undefined, thrown => thrown);
        return check(error !== undefined && throws(error, wanted), `a promise that is rejected with ${wanted}`);
      },
    };
    for (const word of ['to', 'be', 'been', 'is', 'that', 'have', 'has', 'deep', 'with', 'of', 'and']) Object.defineProperty(made, word, { get: () => made });
    made.an = made.a;
    made.instanceof = made.instanceOf;
    return made;
  }

  async function run() {
    const lines = [];
    for (const { name, test, before, after } of tests) {
      let line = 'passes ' + name;
      try {
        for (const hook of before) await hook();
        await test();
        for (const hook of after) await hook();
      } catch (error) {
        line = `fails ${name}: ${error.name}: ${error.message}`;
      }
      lines.push(line);
    }
    return lines;
  }
  return { describe, it, expect, show, run, beforeEach: hook => hooks.beforeEach.push(hook), afterEach: hook => hooks.afterEach.push(hook) };
};

// covered returns a view of a module that knows what was read of it.
const covered = (module, name, used) => new Proxy(module, { get(_, key) { used.add(`${name}${String(key)}`); return module[key]; } });

// random returns a source of numbers from 0 to 1 that a seed decides.
const random = seed => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
