// bounds.js refuses calls of QuickJS's own functions that would go on for
// minutes: they cannot be interrupted. No such call is of use to a job, for what
// they would go through does not fit into its memory.

const MOST_ITEMS = 2 ** 27;
const MOST_COMPARISONS = 2 ** 34;

// countItems returns how many items a function of arrays would go through.
function countItems(list) {
  if (list === null || list === undefined) return 0;
  if (isArray(list) || isView(list) || typeof list !== 'object') return list.length;
  const length = getOwnPropertyDescriptor(list, 'length');
  // A getter could answer differently the next time.
  return length && !length.get ? Number(length.value) : 'length' in list ? Infinity : 0;
}

const { isView } = ArrayBuffer;

function bound(prototype, names, tooMuch) {
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    const native = prototype[name];
    const bounded = {
      [name](...args) {
        if (tooMuch(this, args)) throw from('host', new RangeError(`${name}() would take too long`));
        return apply(native, this, args);
      },
    }[name];
    define(bounded, 'length', { __proto__: null, value: native.length });
    hide(prototype, name, bounded);
  }
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
    [
      'copyWithin', 'every', 'fill', 'filter', 'find', 'findIndex', 'findLast', 'findLastIndex', 'flat', 'flatMap',
      'forEach', 'includes', 'indexOf', 'join', 'lastIndexOf', 'map', 'reduce', 'reduceRight', 'reverse', 'shift',
      'slice', 'some', 'sort', 'splice', 'toLocaleString', 'toReversed', 'toSorted', 'toSpliced', 'unshift', 'with',
    ],
    list => countItems(list) > MOST_ITEMS,
  );
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
  boundReplacements(String.prototype, 'replaceAll', text => TextOf(text).length);
  boundReplacements(RegExp.prototype, Symbol.replace, (_, text) => TextOf(text).length);
}
