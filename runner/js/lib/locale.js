// locale.js loads Intl when it is first looked at, for that takes longer than
// all else in here.

function installLocale() {
  const lazyMethods = [
    [Date.prototype, ['toLocaleString', 'toLocaleDateString', 'toLocaleTimeString']],
    [Number.prototype, ['toLocaleString']],
    [String.prototype, ['localeCompare']],
  ];
  let ready = false;
  const register = () => {
    if (ready) return;
    ready = true;
    delete globalThis.Intl;
    host('intl');
    hide(globalThis, 'Intl', native('intl')(globalThis.Intl));
  };
  define(globalThis, 'Intl', {
    __proto__: null,
    configurable: true,
    get() { register(); return globalThis.Intl; },
    set(value) { hide(globalThis, 'Intl', value); },
  });
  for (let i = 0; i < lazyMethods.length; i++) {
    const [prototype, names] = lazyMethods[i];
    for (let j = 0; j < names.length; j++) {
      const name = names[j];
      hide(prototype, name, { [name](...args) { register(); return apply(prototype[name], this, args); } }[name]);
    }
  }
}
