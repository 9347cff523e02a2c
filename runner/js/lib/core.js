// core.js opens the prelude: the code that every VM runs before any code of a
// job. The files of the prelude are put together, in the order of prelude.go,
// into the body of one strict function, so they share a scope that no job can
// reach. Its arguments are `host` and `native`, through which they reach Go; before them stands `utc`, which
// tells whether that is the time zone.
//
// A job may redefine whatever is global. So what the prelude needs later it
// takes here, and it does not call methods of values that a job has touched.

const { apply, defineProperty: define, deleteProperty, getPrototypeOf } = Reflect;
const { assign, freeze, getOwnPropertyDescriptor, keys: keysOf } = Object;
const { stringify, parse } = JSON;
const { isArray } = Array;
const TextOf = String;
const NativeError = Error;
const NativeTypeError = TypeError;
const NativeFunction = Function;
const NativeMap = Map;
const NativeWeakMap = WeakMap;

// uncurried turns a method into a function that takes its receiver first.
const uncurried = method => (self, ...args) => apply(method, self, args);
const mapGet = uncurried(Map.prototype.get);
const mapSet = uncurried(Map.prototype.set);
const mapDelete = uncurried(Map.prototype.delete);
const weakGet = uncurried(WeakMap.prototype.get);
const weakSet = uncurried(WeakMap.prototype.set);
const hasOwn = uncurried(Object.prototype.hasOwnProperty);

// hide defines a property that does not show up in Object.keys, where the
// object lets it.
function hide(object, name, value) {
  // A descriptor must not inherit from an Object.prototype that a job changed.
  define(object, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
}

// origins knows the errors that this engine throws on purpose and means
// something by: "eval" for a refused eval, "exports" and "operation" for a job
// that is not made as it must be, "sandbox" for what the sandbox refuses. "host"
// is for the mistakes of those who call what stands in for Node's functions.
const origins = new NativeWeakMap();

function from(origin, error) {
  weakSet(origins, error, origin);
  return error;
}

// Code from strings is refused, in all its spellings.
function refuseEval() {
  throw from('eval', new EvalError('Code generation from strings disallowed for this context'));
}

{
  const kinds = [
    function () {},
    async function () {},
    function* () {},
    async function* () {},
  ];
  for (let i = 0; i < kinds.length; i++) {
    const prototype = getPrototypeOf(kinds[i]);
    const constructor = function Function() { refuseEval(); };
    define(constructor, 'prototype', { value: prototype, writable: false });
    define(prototype, 'constructor', { value: constructor });
    if (i === 0) hide(globalThis, 'Function', constructor);
  }
  hide(globalThis, 'eval', refuseEval);
}

// late loads a file of the prelude that most steps do without, when it is first needed. A job may be under way by then: such
// a file takes what is global as its argument.
function late(name) {
  const made = native(name);
  if (typeof made !== 'function') throw new NativeError(made);
  return made;
}
