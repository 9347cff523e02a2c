// problem.js tells, in V8's words, what is wrong with a text that is no JSON, and with a value that has none. It is loaded late: see
// prelude.go. cut is String.prototype.slice with the text first.
({ cut, isArray, keysOf, constructorName }) => {
const farthest = 32_000;

// textProblem returns undefined if nothing is wrong: then the error is that of a reviver. It is undefined as well if there is
// nothing wrong as far as anybody looks.
function textProblem(text) {
  if (text.length <= farthest) return problemOf(text).problem;
  // What is wrong with the end of the beginning may be that it ends.
  const { problem, at } = problemOf(cut(text, 0, farthest));
  return at < farthest - 20 ? problem : undefined;
}

function problemOf(text) {
  const open = []; // what closes the objects and lists that are open
  let depth = 0;
  let at = 0;
  let problem;
  const say = (words, position = at) => { problem = words + ' in JSON at position ' + position; };
  const blank = () => { while (text[at] === ' ' || text[at] === '\t' || text[at] === '\n' || text[at] === '\r') at++; };

  // string skips a string, whose quote it stands at.
  const string = () => {
    for (at++; text[at] !== '"'; at++) {
      if (at >= text.length) return say('Unterminated string', text.length);
      if (text[at] < ' ') return say('Bad control character in string literal');
      if (text[at] !== '\\') continue;
      at++;
      if (at >= text.length) return say('Unterminated string', text.length);
      if (text[at] === 'u') {
        for (let i = 0; i < 4; i++) {
          if (!isHex(text[++at])) return say(at >= text.length ? 'Unterminated string' : 'Bad Unicode escape', at);
        }
      } else if (!isEscape(text[at])) return say('Bad escaped character');
    }
    at++;
  };
  // numeral skips a number.
  const numeral = () => {
    if (text[at] === '-' && !isDecimal(text[++at])) return say('No number after minus sign');
    if (text[at] === '0') {
      if (isDecimal(text[++at])) return say('Unexpected number');
    } else while (isDecimal(text[at])) at++;
    if (text[at] === '.') {
      if (!isDecimal(text[++at])) return say('Unterminated fractional number');
      while (isDecimal(text[at])) at++;
    }
    if (text[at] === 'e' || text[at] === 'E') {
      at++;
      if (text[at] === '+' || text[at] === '-') at++;
      if (!isDecimal(text[at])) return say('Exponent part is missing a number');
      while (isDecimal(text[at])) at++;
    }
  };
  // word skips true, false or null.
  const word = expected => {
    for (let i = 0; i < expected.length; i++, at++) if (text[at] !== expected[i]) return unexpected();
  };
  const unexpected = () => {
    if (at >= text.length) problem = 'Unexpected end of JSON input';
    else if (text === '[object Object]' || text === 'NaN' || text === 'Infinity' || text === 'undefined') problem = '"' + text + '" is not valid JSON';
    else if (text[at] === '"') say('Unexpected string');
    else if (text[at] === '-' || isDecimal(text[at])) say('Unexpected number');
    else problem = "Unexpected token '" + text[at] + "', " + excerpt(text, at) + ' is not valid JSON';
  };
  // name skips the name of a member and its colon.
  const name = words => {
    blank();
    if (text[at] !== '"') return say(words);
    string();
    if (problem) return;
    blank();
    if (text[at] !== ':') return say("Expected ':' after property name");
    at++;
  };

  for (;;) {
    // a value
    blank();
    const c = text[at];
    let closed = true;
    if (c === '"') string();
    else if (c === '-' || isDecimal(c)) numeral();
    else if (c === 't') word('true');
    else if (c === 'f') word('false');
    else if (c === 'n') word('null');
    else if (c === '{' || c === '[') {
      at++;
      blank();
      const end = c === '{' ? '}' : ']';
      if (text[at] === end) at++;
      else {
        open[depth++] = end;
        closed = false;
        if (c === '{') name("Expected property name or '}'");
      }
    } else unexpected();
    if (problem) return { problem, at };
    // what follows it
    while (closed) {
      blank();
      if (depth === 0) {
        if (at < text.length) problem = 'Unexpected non-whitespace character after JSON at position ' + at;
        return { problem, at };
      }
      const end = open[depth - 1];
      if (text[at] === ',') {
        at++;
        closed = false;
        if (end === '}') name('Expected double-quoted property name');
      } else if (text[at] === end) {
        at++;
        depth--;
      } else say(end === '}' ? "Expected ',' or '}' after property value" : "Expected ',' or ']' after array element");
      if (problem) return { problem, at };
    }
  }
}

const isDecimal = c => c >= '0' && c <= '9';
const isHex = c => isDecimal(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
const isEscape = c => c === '"' || c === '\\' || c === '/' || c === 'b' || c === 'f' || c === 'n' || c === 'r' || c === 't';

// excerpt is a text, or ten characters of it on either side of a place.
function excerpt(text, at) {
  if (text.length <= 20) return '"' + text + '"';
  const from = at < 10 ? 0 : at - 10;
  const to = at < 10 || at < text.length - 10 ? at + 10 : text.length;
  return (from > 0 ? '..."' : '"') + cut(text, from, to) + (to < text.length ? '"...' : '"');
}

// circle returns the words for a value that refers to itself, undefined if no circle is found among its members.
const MOST_VALUES = 10_000;

function circle(value) {
  const path = []; // the objects around the present one, and the words for where each is in the one before
  let left = MOST_VALUES;
  const find = (value, where) => {
    if (value === null || typeof value !== 'object' || left-- <= 0) return undefined;
    for (let i = 0; i < path.length; i++) if (path[i].value === value) return words(path, i, where);
    path[path.length] = { value, where };
    const names = keysOf(value);
    for (let i = 0; i < names.length; i++) {
      const found = find(value[names[i]], isArray(value) ? 'index ' + names[i] : "property '" + names[i] + "'");
      if (found) return found;
    }
    path.length--;
    return undefined;
  };
  return find(value, '');
}

// words are those of a circle that begins at a place of a path: V8 leaves out what is in the middle of a long one.
function words(path, begin, closes) {
  const made = i => "object with constructor '" + constructorName(path[i].value) + "'";
  let text = 'Converting circular structure to JSON\n    --> starting at ' + made(begin);
  for (let i = begin + 1; i < path.length; i++) {
    if (i > begin + 2 && i < path.length - 1) {
      text += '\n    |     ...';
      i = path.length - 1;
    }
    text += '\n    |     ' + path[i].where + ' -> ' + made(i);
  }
  return text + '\n    --- ' + closes + ' closes the circle';
}

return { textProblem, circle };
}
