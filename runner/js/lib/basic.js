// basic.js has those operations of @openfn/language-common that nearly every job has, as common.js has the others, and what
// the compiler adds.

function fn(operation) {
  return state => asFunction(operation, 'func')(state);
}

// asFunction returns a function as it is. Where it is none, QuickJS does not say what was called: name is what the real
// package calls it.
function asFunction(value, name) {
  if (typeof value !== 'function') throw new NativeTypeError(`${name} is not a function`);
  return value;
}

// execute waits without the methods of promises, which the job may have changed.
function execute(...operations) {
  return async state => {
    state = await state;
    for (let i = 0; i < operations.length; i++) {
      if (typeof operations[i] === 'function') state = await operations[i](state);
    }
    return state;
  };
}

// defer is what the compiler makes of a chain: op(…).then(f).catch(g). Where the operation throws before it has
// returned a promise, there is no chain.
const defer = (operation, complete = promise => promise, recover = error => { throw error; }) => state => {
  let promise;
  try {
    promise = promised(operation(state));
  } catch (error) {
    return recover(error, state);
  }
  return complete(whenKept(promise, undefined, error => recover(error, state)));
};
const promised = Promise.resolve.bind(Promise);
const whenKept = uncurried(Promise.prototype.then);

// adaptor returns what stands for the exports of @openfn/language-common that a job has, by their names.
const basics = { __proto__: null, execute, fn };
function adaptor(names) {
  for (let i = 0; i < names.length; i++) if (!basics[names[i]]) return { ...basics, ...commons() };
  return { ...basics };
}

const commons = () => late('common')({ apply, asFunction, define, fn, hasOwn, isArray, keysOf, makeConsole });
