// loader.js makes the require of packages. load returns the function of a chunk, or the words of why there is none; call
// asks Go, and exchange for a promise of an answer from the network; Native is the constructor of functions, which jobs do not have.
(load, call, exchange, Native, console) => {
  'use strict';
  // A job may have changed what is global by the time that a package is loaded: what is needed here is taken now, and
  // neither host nor a function of Go's is handed to anything that a job can change.
  const { apply, defineProperty, getOwnPropertyDescriptor, ownKeys } = Reflect;
  const { create, assign, hasOwn, getOwnPropertyNames, getPrototypeOf: prototypeOf } = Object;
  const [NativeError, NativeProxy] = [Error, Proxy];
  const startsWith = String.prototype.startsWith, slice = String.prototype.slice;
  const define = (object, name, property) => { defineProperty(object, name, { __proto__: null, configurable: true, enumerable: true, ...property }); };
  const modules = { __proto__: null };

  function require(id) {
    const known = modules[id];
    if (known) return known.exports;
    const make = load(id);
    if (typeof make !== 'function') {
      const name = apply(startsWith, id, ['missing:']) ? apply(slice, id, [8]) : id;
      throw assign(new NativeError(`Cannot find module '${name}'`), { code: 'MODULE_NOT_FOUND', why: make });
    }
    const module = { exports: {}, id, loaded: false };
    modules[id] = module;
    try {
      apply(make, module.exports, [require, module, module.exports, host]);
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
    return new NativeProxy({}, {
      __proto__: null,
      get: (_, key) => load()[key],
      has: (_, key) => key in load(),
      ownKeys: () => ownKeys(load()),
      getOwnPropertyDescriptor(_, key) {
        const property = getOwnPropertyDescriptor(load(), key);
        return property && { ...property, configurable: true };
      },
    });
  };

  function namespaceOf(module, asNode) {
    const made = module === null || module === undefined ? {} : create(prototypeOf(module));
    if (asNode || !module || !module.__esModule) define(made, 'default', { value: module, configurable: false });
    if (module && (typeof module === 'object' || typeof module === 'function')) {
      const names = getOwnPropertyNames(module);
      for (let i = 0; i < names.length; i++) {
        const key = names[i];
        if (!hasOwn(made, key)) define(made, key, { get: () => module[key], configurable: false });
      }
    }
    return made;
  }

  const host = { call, exchange, console, Function: Native, global: undefined };
  host.global = create(globalThis);
  const lazily = (names, find) => {
    for (const name of names) {
      define(host, name, {
        get() {
          const value = find(name);
          define(host, name, { value, writable: true });
          return value;
        },
        set(value) { define(host, name, { value, writable: true }); },
      });
      define(host.global, name, { get: () => host[name], set(value) { host[name] = value; } });
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
  lazily(['atob', 'btoa'], name => require('node:_web')[name]);
  lazily(['Headers', 'Request', 'Response'], name => require('node:_fetch')[name]);
  lazily(['fetch'], () => require('node:_fetch').fetchAs('node'));
  return require;
}
