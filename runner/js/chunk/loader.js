// loader.js makes the require of packages. load returns the function of a chunk, or the words of why there is none; call
// asks Go, and exchange for a promise of an answer from the network; Native is the constructor of functions, which jobs do not have.
(load, call, exchange, Native, console) => {
  'use strict';
  const modules = { __proto__: null };

  function require(id) {
    const known = modules[id];
    if (known) return known.exports;
    const make = load(id);
    if (typeof make !== 'function') {
      throw Object.assign(new Error(`Cannot find module '${id.replace(/^missing:/, '')}'`), { code: 'MODULE_NOT_FOUND', why: make });
    }
    const module = { exports: {}, id, loaded: false };
    modules[id] = module;
    try {
      make.call(module.exports, require, module, module.exports, host);
    } catch (error) {
      delete modules[id];
      throw error;
    }
    module.loaded = true;
    return module.exports;
  }

  // later returns a namespace that is loaded when something is read of it: the module itself for 0; as an ES module
  // sees it for 1, and for 11, where it is Node's own way.
  require.later = (id, mode) => {
    let made;
    const load = () => (made ??= mode === 0 ? require(id) : namespaceOf(require(id), mode === 11));
    return new Proxy({}, {
      get: (_, key) => load()[key],
      has: (_, key) => key in load(),
      ownKeys: () => Reflect.ownKeys(load()),
      getOwnPropertyDescriptor(_, key) {
        const property = Reflect.getOwnPropertyDescriptor(load(), key);
        return property && { ...property, configurable: true };
      },
    });
  };

  function namespaceOf(module, asNode) {
    const made = module === null || module === undefined ? {} : Object.create(Object.getPrototypeOf(module));
    if (asNode || !module || !module.__esModule) Object.defineProperty(made, 'default', { value: module, enumerable: true });
    if (module && (typeof module === 'object' || typeof module === 'function')) {
      for (const key of Object.getOwnPropertyNames(module)) {
        if (!Object.hasOwn(made, key)) Object.defineProperty(made, key, { get: () => module[key], enumerable: true });
      }
    }
    return made;
  }

  const host = { call, exchange, console, Function: Native, global: undefined };
  host.global = Object.create(globalThis);
  const lazily = (names, find) => {
    for (const name of names) {
      const property = {
        configurable: true, enumerable: true,
        get() { const value = find(name); this.set(name, value); return value; },
        set(value) { host[name] = value; },
      };
      Object.defineProperty(host, name, {
        configurable: true, enumerable: true,
        get() {
          const value = find(name);
          Object.defineProperty(host, name, { value, writable: true, configurable: true, enumerable: true });
          return value;
        },
        set(value) { Object.defineProperty(host, name, { value, writable: true, configurable: true, enumerable: true }); },
      });
      Object.defineProperty(host.global, name, { configurable: true, enumerable: true, get: () => host[name], set(value) { property.set(value); } });
    }
  };
  lazily(['process'], () => require('node:process'));
  lazily(['Buffer'], () => require('node:buffer').Buffer);
  lazily(['URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder', 'structuredClone', 'Blob', 'File', 'FormData', 'EventTarget', 'Event', 'DOMException', 'AbortSignal', 'AbortController'], name => require('node:_web')[name]);
  lazily(['ReadableStream', 'WritableStream', 'TransformStream'], name => require('node:stream/web')[name]);
  lazily(['crypto'], () => require('node:crypto'));
  lazily(['performance'], () => ({ now: () => Date.now(), timeOrigin: 0, mark() {}, measure() {} }));
  lazily(['queueMicrotask'], () => callback => { Promise.resolve().then(callback); });
  lazily(['setImmediate'], () => (callback, ...args) => setTimeout(callback, 0, ...args));
  lazily(['clearImmediate'], () => id => clearTimeout(id));
  lazily(['atob'], () => text => host.Buffer.from(text, 'base64').toString('latin1'));
  lazily(['btoa'], () => text => host.Buffer.from(text, 'latin1').toString('base64'));
  lazily(['Headers', 'Request', 'Response'], name => require('node:_fetch')[name]);
  lazily(['fetch'], () => require('node:_fetch').fetchAs('node'));
  return require;
}
