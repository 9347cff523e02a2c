// intl.js adds to an Intl that knows en-US alone: the comparison of strings as
// people do it, close to the root collation of Unicode (letters before accents
// before case; QuickJS compares code units), and the short dates of other
// locales.

Intl => {
  'use strict';

  const bare = text => text.normalize('NFD').replace(/\p{M}/gu, '');

  // kind orders the classes of characters: space, punctuation, digits, letters.
  function kind(c) {
    if (/\s/u.test(c)) return 0;
    if (/\p{L}/u.test(c)) return 3;
    return /\p{N}/u.test(c) ? 2 : 1;
  }

  function letters(a, b) {
    const [x, y] = [[...bare(a).toLowerCase()], [...bare(b).toLowerCase()]];
    for (let i = 0; i < Math.min(x.length, y.length); i++) {
      if (x[i] === y[i]) continue;
      return kind(x[i]) - kind(y[i]) || (x[i] < y[i] ? -1 : 1);
    }
    return x.length - y.length;
  }

  function numbers(a, b) {
    const [x, y] = [a.match(/\d+|\D+/g) ?? [], b.match(/\d+|\D+/g) ?? []];
    for (let i = 0; i < Math.min(x.length, y.length); i++) {
      const both = /^\d/.test(x[i]) && /^\d/.test(y[i]);
      const order = both ? Number(x[i]) - Number(y[i]) : letters(x[i], y[i]);
      if (order !== 0) return order;
    }
    return x.length - y.length;
  }

  const marks = text => text.normalize('NFD').toLowerCase();
  const plain = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

  function compare(a, b, { numeric = false, sensitivity = 'variant' }) {
    const order = (numeric ? numbers : letters)(a, b);
    if (order !== 0 || sensitivity === 'base') return Math.sign(order);
    if (sensitivity !== 'case') {
      const accents = plain(marks(a), marks(b));
      if (accents !== 0 || sensitivity === 'accent') return accents;
    }
    // Lower case comes first.
    return -plain(bare(a), bare(b));
  }

  class Collator {
    #options;
    constructor(locales, options = {}) { this.#options = { ...options }; }
    static supportedLocalesOf(locales) { return [].concat(locales ?? []); }
    get compare() { return (a, b) => compare(String(a), String(b), this.#options); }
    resolvedOptions() { return { locale: 'en-US', usage: 'sort', sensitivity: 'variant', numeric: false, ...this.#options }; }
  }

  Intl.Collator = Collator;
  Object.defineProperty(String.prototype, 'localeCompare', {
    value: function localeCompare(other, locales, options = {}) { return compare(String(this), String(other), options); },
    writable: true, configurable: true, enumerable: false,
  });

  // dates are the short dates of locales, or else of languages.
  const dates = {
    'en-AU': 'DD/MM/Y', 'en-GB': 'DD/MM/Y', 'en-IE': 'DD/MM/Y', 'en-IN': 'D/M/Y', 'en-KE': 'DD/MM/Y', 'en-NZ': 'D/MM/Y',
    de: 'D.M.Y', es: 'D/M/Y', fr: 'DD/MM/Y', it: 'D/M/Y', nl: 'D-M-Y', pt: 'DD/MM/Y', sv: 'Y-MM-DD', sw: 'DD/MM/Y',
  };
  const inUS = Date.prototype.toLocaleDateString;

  Object.defineProperty(Date.prototype, 'toLocaleDateString', {
    value: function toLocaleDateString(locales, options = {}) {
      const locale = String([].concat(locales)[0]);
      const pattern = dates[locale] ?? dates[locale.split('-')[0]];
      const { timeZone, ...others } = options ?? {};
      if (!pattern || Object.keys(others).length > 0 || Number.isNaN(this.getTime())) return inUS.call(this, locales, options);
      const [month, day, year] = inUS.call(this, 'en-US', { timeZone }).split('/');
      const values = { D: day, DD: day.padStart(2, '0'), M: month, MM: month.padStart(2, '0'), Y: year };
      return pattern.replace(/[DM]{1,2}|Y/g, part => values[part]);
    },
    writable: true, configurable: true, enumerable: false,
  });
  return Intl;
};
