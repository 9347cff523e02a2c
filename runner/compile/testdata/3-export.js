// A body with a default export is taken as compiled: only names and `$` are seen to.
const greet = name => state => ({ ...state, hello: name });
export default [fn(state => state), greet($.name)];
