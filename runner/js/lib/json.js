// json.js has JSON say in V8's words what is wrong with a text, or with a value that refers to itself: they tell where, and people
// know them. What they are is looked up only once QuickJS has refused it, and not where that is far from a text's beginning: it
// takes some ten microseconds a letter.

const NativeSyntaxError = SyntaxError;
const cut = uncurried(String.prototype.slice);
let loaded;

const problems = () => (loaded ??= late('problem')({ cut, isArray, keysOf, constructorName }));
const constructorName = value => text(read(read(value, 'constructor') ?? {}, 'name')) ?? 'Object';

function installJSON() {
  const native = parse;
  hide(JSON, 'parse', { parse(text, reviver) {
    try {
      return native(text, reviver);
    } catch (error) {
      if (error instanceof NativeSyntaxError) {
        const read = typeof text === 'string' ? text : TextOf(text);
        reword(error, () => problems().textProblem(read));
      }
      throw error;
    }
  } }.parse);
  const { stringify } = JSON;
  hide(JSON, 'stringify', { stringify(value, replacer, space) {
    try {
      return stringify(value, replacer, space);
    } catch (error) {
      if (error instanceof NativeTypeError && read(error, 'message') === 'circular reference') reword(error, () => problems().circle(value));
      throw error;
    }
  } }.stringify);
}

function reword(error, find) {
  let words;
  try {
    words = find();
  } catch {
    // what is looked at is a job's
  }
  if (words) hide(error, 'message', words);
}
