// condition.js evaluates the conditions on edges. They have a VM of their own,
// which has no timers and nothing of a job.

let conditionState;

function conditions(state) {
  globalThis.console ??= makeConsole('ADA');
  conditionState = state === '' ? undefined : parse(state);
}

// evaluate reports whether the condition holds. A condition may change the
// state.
function evaluate(condition, upstream) {
  let value;
  try {
    value = condition(conditionState, upstream);
  } catch (error) {
    return facts(error);
  }
  return value ? 'true' : 'false';
}

function changed() {
  return conditionState === undefined ? '' : toJSON(conditionState);
}
