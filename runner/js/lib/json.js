// json.js has JSON.parse say in V8's words what is wrong with a text: they tell where, and people know them. What they
// are is looked up only once QuickJS has refused the text, and not where that is far from its beginning: it takes some ten
// microseconds a letter.

const NativeSyntaxError = SyntaxError;
const cut = uncurried(String.prototype.slice);
let jsonProblem;

function installJSON() {
  const native = parse;
  hide(JSON, 'parse', { parse(text, reviver) {
    try {
      return native(text, reviver);
    } catch (error) {
      if (error instanceof NativeSyntaxError) {
        const read = typeof text === 'string' ? text : TextOf(text);
        const problem = (jsonProblem ??= late('problem')(cut))(read);
        if (problem) hide(error, 'message', problem);
      }
      throw error;
    }
  } }.parse);
}
