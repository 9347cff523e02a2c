// dispatch.js ends the prelude: the one function that Go calls.

const entries = { __proto__: null, begin, fire, finish, conditions, evaluate, changed, uncaught };
return (name, a, b, c, d) => entries[name](a, b, c, d);
