// dispatch.js ends the prelude: the one function that Go calls.

const entries = {
  __proto__: null,
  receive, begin, fire, finish, unhandled, conditions, evaluate, changed, answered, exportsOf,
  exports: () => stringify(keysOf({ ...basics, ...commons() })),
};
// What steps and conditions have alike is there when a VM stands ready.
installBounds();
installDates();
return (name, a, b, c, d) => entries[name](a, b, c, d);
