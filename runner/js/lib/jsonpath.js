// jsonpath.js reads the paths of operations: `$.data.items[*]`, `$..name`,
// `$.list[0,2]`, `$.list[1:3]`, `$['odd key']`, `$.rows[?(@.age > 3)]`. A path
// that does not begin with `$` is read as if it did.

const paths = new Map();

// query returns all values that a path leads to.
function query(path, root) {
  let steps = paths.get(path);
  if (!steps) paths.set(path, (steps = parsePath(String(path))));
  let found = [root];
  for (const step of steps) {
    const next = [];
    for (const value of found) step(value, next);
    found = next;
  }
  return found;
}

function parsePath(path) {
  const bad = at => new Error(`"${path}" is not a path: unexpected ${at < path.length ? `"${path[at]}" at position ${at + 1}` : 'end'}`);
  const steps = [];
  let at = path[0] === '$' ? 1 : 0;
  if (at === 0 && path !== '' && path[0] !== '[') path = '.' + path;

  const name = () => {
    const [word] = /^[^.[\]()?'"\s]*/.exec(path.slice(at));
    if (word === '') throw bad(at);
    at += word.length;
    return word;
  };
  while (at < path.length) {
    if (path.startsWith('..', at)) {
      at += 2;
      steps.push(descend);
      if (path[at] !== '[') steps.push(member(name()));
    } else if (path[at] === '.') {
      at++;
      steps.push(member(name()));
    } else if (path[at] === '[') {
      const end = closing(path, at);
      if (end < 0) throw bad(path.length);
      const inside = path.slice(at + 1, end).trim();
      const step = subscript(inside);
      if (!step) throw bad(at + 1);
      steps.push(step);
      at = end + 1;
    } else {
      throw bad(at);
    }
  }
  return steps;
}

// closing returns where the bracket at a position closes, outside of quotes.
function closing(path, at) {
  let depth = 0;
  let quote = '';
  for (; at < path.length; at++) {
    const c = path[at];
    if (quote) {
      if (c === '\\') at++;
      else if (c === quote) quote = '';
    } else if (c === "'" || c === '"') quote = c;
    else if (c === '[') depth++;
    else if (c === ']' && --depth === 0) return at;
  }
  return -1;
}

const isObject = value => value !== null && typeof value === 'object';

function member(name) {
  if (name === '*') return all;
  return (value, found) => {
    if (isObject(value) && Object.hasOwn(value, name)) found.push(value[name]);
  };
}

function all(value, found) {
  if (isObject(value)) for (const key of Object.keys(value)) found.push(value[key]);
}

function descend(value, found) {
  if (!isObject(value)) return;
  found.push(value);
  for (const key of Object.keys(value)) descend(value[key], found);
}

function subscript(inside) {
  if (inside === '*') return all;
  const filter = /^\?\s*\((.*)\)$/s.exec(inside);
  if (filter) return where(filter[1]);
  const range = /^(-?\d+)?\s*:\s*(-?\d+)?(?:\s*:\s*(\d+))?$/.exec(inside);
  if (range) return slice(range[1], range[2], range[3]);
  const names = [];
  const item = /\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,'"[\]()?]+))\s*(,|$)/sy;
  let more = ',';
  while (more === ',') {
    const part = item.exec(inside);
    if (!part) return undefined;
    const [, single, double, bare] = part;
    names.push(bare !== undefined ? bare.trim() : (single ?? double).replace(/\\(.)/gs, '$1'));
    more = part[4];
  }
  return (value, found) => {
    for (const name of names) {
      const index = Array.isArray(value) && /^-\d+$/.test(name) ? String(value.length + Number(name)) : name;
      member(index)(value, found);
    }
  };
}

function slice(start, end, step) {
  return (value, found) => {
    if (!Array.isArray(value)) return;
    const part = value.slice(Number(start ?? 0), end === undefined ? value.length : Number(end));
    for (let i = 0; i < part.length; i += Number(step ?? 1) || 1) found.push(part[i]);
  };
}

// where reads the filter of a path: comparisons of `@.a.b` with a constant,
// joined by && or ||.
function where(text) {
  const either = text.split('||').map(part => part.split('&&').map(comparison));
  return (value, found) => {
    if (!isObject(value)) return;
    for (const key of Object.keys(value)) {
      if (either.some(both => both.every(test => test(value[key])))) found.push(value[key]);
    }
  };
}

function comparison(text) {
  const parts = /^\s*(!?)\s*@((?:\.[\w$-]+|\['[^']*'\])*)\s*(?:(===?|!==?|<=?|>=?)\s*(.+?))?\s*$/s.exec(text);
  if (!parts) throw new Error(`"${text.trim()}" is not a filter that paths may have: compare @.key with a constant`);
  const [, not, path, operator, constant] = parts;
  const find = item => query('$' + path, item)[0];
  if (!operator) return item => Boolean(find(item)) !== (not === '!');
  const wanted = JSON.parse(constant.replace(/^'(.*)'$/s, (_, inner) => JSON.stringify(inner)));
  switch (operator) {
    case '==': case '===': return item => find(item) === wanted;
    case '!=': case '!==': return item => find(item) !== wanted;
    case '<': return item => find(item) < wanted;
    case '<=': return item => find(item) <= wanted;
    case '>': return item => find(item) > wanted;
    default: return item => find(item) >= wanted;
  }
}
