// bounds.js refuses calls of QuickJS's own functions that would go on for
// minutes: they cannot be interrupted. No such call is of use to a job, for what
// they would go through does not fit into its memory. Calls that allocate memory
// all along need no bound: at the end of a run they get none; see watch.go.

const MOST_ITEMS = 2 ** 27;
const MOST_COMPARISONS = 2 ** 34;
const MOST_NAMES = 1000;

// countItems returns how many items a function of arrays would go through.
function countItems(list) {
  if (list === null || list === undefined) return 0;
  if (isArray(list) || isView(list) || typeof list !== 'object') return list.length;
  const length = getOwnPropertyDescriptor(list, 'length');
  // A getter could answer differently the next time.
  return length && !length.get ? Number(length.value) : 'length' in list ? Infinity : 0;
}

const { isView } = ArrayBuffer;

// countUnits returns how much there is to compare of a value.
const countUnits = value => (typeof value === 'string' ? value.length : typeof value === 'bigint' ? 2 ** 14 : 1);

// hasManyMarks reports whether a text has so many combining marks in a row that
// putting them in order would take the square of their number. U+0E33, U+0EB3,
// U+FF9E and U+FF9F may become marks.
function hasManyMarks(value) {
  return typeof value === 'string' && value.length > 1000 && apply(exec, manyMarks, [value]) !== null;
}

const manyMarks = /[\p{M}\u0E33\u0EB3\uFF9E\uFF9F]{1000}/u;
const { exec } = RegExp.prototype;

// bound puts functions in the place of QuickJS's. Each is declared with as many parameters as the one it stands for, so that
// its length needs no definition, and assigned, which keeps what the property was: there are some sixty in each VM.
function bound(prototype, names, tooMuch) {
  for (let i = 0; i < names.length; i++) {
    const native = prototype[names[i]];
    prototype[names[i]] = boundBy[native.length](names[i], native, tooMuch);
  }
}

const boundBy = [
  (name, native, tooMuch) => ({ [name]() { check(name, tooMuch(this, arguments)); return apply(native, this, arguments); } })[name],
  (name, native, tooMuch) => ({ [name](_) { check(name, tooMuch(this, arguments)); return apply(native, this, arguments); } })[name],
  (name, native, tooMuch) => ({ [name](_, __) { check(name, tooMuch(this, arguments)); return apply(native, this, arguments); } })[name],
  (name, native, tooMuch) => ({ [name](_, __, ___) { check(name, tooMuch(this, arguments)); return apply(native, this, arguments); } })[name],
];

function check(name, tooMuch) {
  if (tooMuch) throw from('host', new NativeRangeError(`${name}() would take too long`));
}

const NativeRangeError = RangeError;

// needFunction refuses what a function of arrays cannot call, in V8's words: QuickJS does not say what it was.
function needFunction(value, words) {
  if (typeof value !== 'function') throw new NativeTypeError(words(value));
}

// shown is what a message has of a value, as V8 puts it there.
function shown(value) {
  if (value === null || typeof value !== 'object') return TextOf(value);
  return isArray(value) ? '[object Array]' : `#<${constructorName(value)}>`;
}

// boundNormalization fixes the texts that are normalised, so that they are those
// that were looked at.
function boundNormalization(prototype, name) {
  const native = prototype[name];
  const fix = value => (value !== null && typeof value === 'object' ? `${value}` : value);
  const bounded = {
    [name](...args) {
      const text = fix(this);
      args[0] = fix(args[0]);
      if (hasManyMarks(text) || hasManyMarks(args[0])) {
        throw from('host', new RangeError(`${name}() would take too long`));
      }
      return apply(native, text, args);
    },
  }[name];
  define(bounded, 'length', { __proto__: null, value: native.length });
  hide(prototype, name, bounded);
}

// boundSort gives QuickJS a function to compare by, between whose calls it can be
// interrupted, where it would go through long texts for each comparison.
function boundSort(prototype, name) {
  const native = prototype[name];
  const bounded = {
    [name](compare) {
      if (compare !== undefined) needFunction(compare, () => 'The comparison function must be either a function or undefined');
      if (countItems(this) > MOST_ITEMS) throw from('host', new RangeError(`${name}() would take too long`));
      return apply(native, this, [compare === undefined && !areShort(this) ? byText : compare]);
    },
  }[name];
  hide(prototype, name, bounded);
}

function areShort(list) {
  for (let i = 0; i < list.length; i++) {
    const kind = typeof list[i];
    if (kind === 'object' || kind === 'function' || (kind === 'string' && list[i].length > 1000)) return false;
  }
  return true;
}

function byText(a, b) {
  const x = `${a}`;
  const y = `${b}`;
  return x < y ? -1 : x > y ? 1 : 0;
}

// raw is String.raw, which as QuickJS has it does not even end when there is no
// memory left.
function raw(template, ...values) {
  const { raw: texts } = template;
  const count = Number(texts.length);
  let text = '';
  for (let i = 0; i + 1 <= count; i++) {
    text += `${texts[i]}`;
    if (i + 2 <= count && i < values.length) text += `${values[i]}`;
  }
  return text;
}

// boundReplacements gives a long replacement that would go into a long text to
// QuickJS as a function, which it calls for each match and can be interrupted at.
// Given as a text it is gone through anew at each match, with memory or without.
function boundReplacements(prototype, name, textOf) {
  const native = prototype[name];
  const bounded = {
    [name](first, replacement) {
      if (typeof replacement !== 'function') replacement = `${replacement}`;
      const fixed = replacement;
      if (typeof fixed === 'string' && fixed.length * textOf(this, first) > MOST_COMPARISONS) {
        if (apply(includes, fixed, ['$'])) throw from('host', new RangeError('replace() would take too long'));
        replacement = () => fixed;
      }
      return apply(native, this, [first, replacement]);
    },
  }[name];
  hide(prototype, name, bounded);
}

const { includes } = String.prototype;

function installBounds() {
  bound(
    Array.prototype,
    ['copyWithin', 'fill', 'flat', 'join', 'reverse', 'shift', 'slice', 'splice', 'toLocaleString', 'toReversed', 'toSpliced', 'unshift', 'with'],
    list => countItems(list) > MOST_ITEMS,
  );
  bound(
    Array.prototype,
    ['every', 'filter', 'find', 'findIndex', 'findLast', 'findLastIndex', 'forEach', 'map', 'reduce', 'reduceRight', 'some'],
    (list, args) => {
      needFunction(args[0], value => shown(value) + ' is not a function');
      return countItems(list) > MOST_ITEMS;
    },
  );
  bound(Array.prototype, ['flatMap'], (list, args) => {
    needFunction(args[0], () => 'flatMap mapper function is not callable');
    return countItems(list) > MOST_ITEMS;
  });
  bound(Array.prototype, ['includes', 'indexOf', 'lastIndexOf'], (list, args) => {
    const count = countItems(list);
    return count > MOST_ITEMS || count * countUnits(args[0]) > MOST_COMPARISONS;
  });
  bound(Array.prototype, ['concat'], (list, args) => {
    let count = countItems(list);
    for (let i = 0; i < args.length; i++) if (typeof args[i] === 'object') count += countItems(args[i]);
    return count > MOST_ITEMS;
  });
  bound(
    String.prototype,
    ['includes', 'indexOf', 'lastIndexOf', 'replace', 'replaceAll', 'split'],
    (text, args) => typeof args[0] === 'string' && args[0].length * TextOf(text).length > MOST_COMPARISONS,
  );
  boundSort(Array.prototype, 'sort');
  boundSort(Array.prototype, 'toSorted');
  boundNormalization(String.prototype, 'normalize');
  boundNormalization(String.prototype, 'localeCompare');
  hide(TextOf, 'raw', raw);
  bound(getPrototypeOf(getPrototypeOf([].values())), ['drop'], (_, args) => Number(args[0]) > MOST_ITEMS);
  bound(JSON, ['stringify'], (_, args) => isArray(args[1]) && args[1].length > MOST_NAMES);
  boundReplacements(String.prototype, 'replaceAll', text => TextOf(text).length);
  boundReplacements(RegExp.prototype, Symbol.replace, (_, text) => TextOf(text).length);
}
