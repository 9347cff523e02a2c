// datetext.js reads a text as a date in V8's way, and returns its milliseconds since 1970, NaN for what is none. A text that begins as
// ISO 8601 has it goes on so or is none; of any other, words before the first number and what is in brackets say nothing,
// and numbers are what their order and what stands around them makes them. It is loaded late: see prelude.go.
(apply, construct, NativeDate) => {
const months = { __proto__: null, jan: 1, feb: 2, mar: 3, apr: 4, may: 5, jun: 6, jul: 7, aug: 8, sep: 9, oct: 10, nov: 11, dec: 12 };
const zones = { __proto__: null, ut: 0, utc: 0, z: 0, gmt: 0, cdt: -5, cst: -6, edt: -4, est: -5, mdt: -6, mst: -7, pdt: -7, pst: -8 };
const halves = { __proto__: null, am: 0, pm: 12 };

// What a job may have changed is not called: methods, and what lists are taken apart by.
const lower = { __proto__: null };
for (let i = 0; i < 26; i++) lower['ABCDEFGHIJKLMNOPQRSTUVWXYZ'[i]] = 'abcdefghijklmnopqrstuvwxyz'[i];
const isDigit = c => c >= '0' && c <= '9';
const isBlank = c => c === ' ' || (c >= '\t' && c <= '\r') || c === '\u00a0' || c === '\u1680' || (c >= '\u2000' && c <= '\u200a')
  || c === '\u2028' || c === '\u2029' || c === '\u202f' || c === '\u205f' || c === '\u3000' || c === '\ufeff';
const isLetter = c => c >= 'A' && !isBlank(c);
const isSign = token => token.kind === '+' || token.kind === '-';
const isMonth = n => n >= 1 && n <= 12;
const isDay = n => n >= 1 && n <= 31;
const isBelow = (n, end) => n >= 0 && n < end;

// split returns the tokens of a text. Each has a kind: number, word, blank, one of the signs :-+.)( or other.
function split(text) {
  const tokens = [];
  for (let at = 0; at < text.length;) {
    const c = text[at];
    const token = { __proto__: null, kind: 'other', length: 0, value: 0, name: '' };
    const from = at++;
    if (isDigit(c)) {
      token.kind = 'number';
      while (isDigit(text[at])) at++;
      let zeros = from;
      while (text[zeros] === '0') zeros++;
      for (let i = zeros; i < at && i < zeros + 9; i++) token.value = token.value * 10 + (text[i] - 0);
    } else if (c === ':' || c === '-' || c === '+' || c === '.' || c === ')') token.kind = c;
    else if (isLetter(c)) {
      token.kind = 'word';
      while (at < text.length && isLetter(text[at])) at++;
      // What follows the first three letters matters to months alone.
      for (let i = from; i < at && i < from + 3; i++) token.name += lower[text[i]] ?? text[i];
    } else if (isBlank(c)) token.kind = 'blank';
    else if (c === '(') {
      for (let open = 1; open > 0 && at < text.length; at++) open += text[at] === '(' ? 1 : text[at] === ')' ? -1 : 0;
    }
    token.length = at - from;
    tokens[tokens.length] = token;
  }
  return tokens;
}

const end = { __proto__: null, kind: 'end', length: 0, value: 0, name: '' };
const among = (table, token) => (token.kind === 'word' && (token.length <= 3 || table === months) ? table[token.name] : undefined);

const quotient = (n, by) => (n - (n % by)) / by;

// milliseconds are the first three digits of a fraction.
function milliseconds({ value, length }) {
  return length <= 3 ? value * 10 ** (3 - length) : quotient(value, 10 ** ((length < 9 ? length : 9) - 3));
}

return text => {
  const tokens = split(text);
  let at = 0;
  const peek = () => tokens[at] ?? end;
  const next = () => tokens[at++] ?? end;
  const skip = kind => peek().kind === kind && ++at > 0;
  const fixed = (length, is) => peek().kind === 'number' && peek().length === length && is(peek().value);

  const day = []; // numbers of a date
  const time = []; // hours, minutes, seconds, milliseconds
  let iso = false;
  let month; // by name
  let half; // of the day
  let sign, zoneHours, zoneMinutes;
  const setZone = hours => { sign = hours < 0 ? -1 : 1; zoneHours = hours * sign; zoneMinutes = 0; };
  const endTime = n => { for (time[time.length] = n; time.length < 4;) time[time.length] = 0; };
  const isExpected = n => (time.length === 1 || time.length === 2 ? isBelow(n, 60) : time.length === 3 && isBelow(n, 1000));

  // readISO returns the first token that is not part of a date as ISO 8601 has it, end if all are, undefined for a text that is no date.
  function readISO() {
    if (isSign(peek())) {
      const first = next();
      if (!fixed(6, () => true)) return first;
      const year = next().value;
      if (first.kind === '-' && year === 0) return first;
      day[0] = first.kind === '-' ? -year : year;
    } else if (fixed(4, () => true)) day[0] = next().value;
    else return next();
    if (skip('-')) {
      if (!fixed(2, isMonth)) return next();
      day[1] = next().value;
      if (skip('-')) {
        if (!fixed(2, isDay)) return next();
        day[2] = next().value;
      }
    }
    if (peek().name === 't' && peek().length === 1) {
      at++;
      if (!readISOTime()) return undefined;
    } else if (peek() !== end) return next();
    if (sign === undefined && time.length === 0) setZone(0);
    iso = true;
    return end;
  }

  function readISOTime() {
    if (!fixed(2, n => isBelow(n, 25))) return false;
    time[0] = next().value;
    const most = time[0] === 24 ? 1 : 60;
    if (!skip(':') || !fixed(2, n => isBelow(n, most))) return false;
    time[1] = next().value;
    if (skip(':')) {
      if (!fixed(2, n => isBelow(n, most))) return false;
      time[2] = next().value;
      if (skip('.')) {
        if (peek().kind !== 'number' || (most === 1 && peek().value > 0)) return false;
        time[3] = milliseconds(next());
      }
    }
    if (peek().name === 'z' && peek().length === 1) {
      at++;
      setZone(0);
    } else if (isSign(peek())) {
      sign = next().kind === '-' ? -1 : 1;
      if (fixed(4, n => isBelow(n, 2400) && isBelow(n % 100, 60))) {
        const { value } = next();
        zoneHours = quotient(value, 100);
        zoneMinutes = value % 100;
      } else {
        if (!fixed(2, n => isBelow(n, 24))) return false;
        zoneHours = next().value;
        if (!skip(':') || !fixed(2, n => isBelow(n, 60))) return false;
        zoneMinutes = next().value;
      }
    }
    return peek() === end;
  }

  // readNumber takes in a number, and tells whether it can be part of a date.
  function readNumber({ value }) {
    if (skip(':')) {
      if (skip(':')) {
        if (time.length > 0) return false;
        time[0] = value;
        time[1] = 0;
        return true;
      }
      if (time.length === 4) return false;
      time[time.length] = value;
      skip('.');
      return true;
    }
    if (skip('.') && isExpected(value)) {
      time[time.length] = value;
      if (peek().kind !== 'number') return false;
      endTime(milliseconds(next()));
    } else if (zoneHours !== undefined && zoneMinutes === undefined && isBelow(value, 60)) zoneMinutes = value;
    else if (isExpected(value)) {
      endTime(value);
      const follows = peek();
      return follows === end || follows.kind === 'blank' || isSign(follows) || (follows.name === 'z' && follows.length === 1);
    } else {
      if (day.length === 3) return false;
      day[day.length] = value;
      skip('-');
    }
    return true;
  }

  function readWord(token, hasNumber) {
    if (among(halves, token) !== undefined && time.length > 0) half = among(halves, token);
    else if (among(months, token)) {
      month = among(months, token);
      skip('-');
    } else if (among(zones, token) !== undefined && hasNumber) setZone(among(zones, token));
    else return !hasNumber && peek().kind !== 'number';
    return true;
  }

  function readZone(token) {
    sign = token.kind === '-' ? -1 : 1;
    const { value, length } = peek().kind === 'number' ? next() : end;
    if (peek().kind === ':') {
      zoneHours = value;
      zoneMinutes = undefined;
    } else if (length === 1 || length === 2) {
      zoneHours = value;
      zoneMinutes = 0;
    } else if (length === 3 || length === 4) {
      zoneHours = quotient(value, 100);
      zoneMinutes = value % 100;
    } else return false;
    return true;
  }

  // calendar returns year, month and day, undefined for what is none.
  function calendar() {
    if (day.length === 0) return undefined;
    while (day.length < 3) day[day.length] = 1;
    const a = day[0];
    const b = day[1];
    const order = month !== undefined ? (isDay(a) ? [b, month, a] : [a, month, b]) : iso || !isDay(a) ? day : [day[2], a, b];
    if (!iso && isBelow(order[0], 100)) order[0] += order[0] < 50 ? 2000 : 1900;
    return isMonth(order[1]) && isDay(order[2]) ? order : undefined;
  }

  // clock returns hours, minutes, seconds and milliseconds, undefined for what is none.
  function clock() {
    while (time.length < 4) time[time.length] = 0;
    if (half !== undefined) {
      if (!isBelow(time[0], 13)) return undefined;
      time[0] = (time[0] % 12) + half;
    }
    const isTime = isBelow(time[0], 24) && isBelow(time[1], 60) && isBelow(time[2], 60) && isBelow(time[3], 1000);
    return isTime || (time[0] === 24 && time[1] + time[2] + time[3] === 0) ? time : undefined;
  }

  let token = readISO();
  if (token === undefined) return NaN;
  let hasNumber = day.length > 0;
  if (token === end && peek() !== end) token = next();
  for (; token !== end; token = next()) {
    if (token.kind === 'number') {
      hasNumber = true;
      if (!readNumber(token)) return NaN;
    } else if (token.kind === 'word') {
      if (!readWord(token, hasNumber)) return NaN;
    } else if (isSign(token) && ((zoneHours === 0 && zoneMinutes === 0) || time.length > 0)) {
      hasNumber = true;
      if (!readZone(token)) return NaN;
    } else if ((isSign(token) || token.kind === ')') && hasNumber) return NaN;
  }
  const date = calendar();
  if (!date || !clock()) return NaN;
  // The years 0 to 99 are others as arguments of Date: they are read as those 400 years later, which have the same days.
  const early = isBelow(date[0], 100);
  const list = [early ? date[0] + 400 : date[0], date[1] - 1, date[2], time[0], time[1], time[2], time[3]];
  const ms = sign === undefined ? +construct(NativeDate, list) : apply(NativeDate.UTC, undefined, list) - sign * ((zoneHours ?? 0) * 3600 + (zoneMinutes ?? 0) * 60) * 1000;
  return early ? ms - 146_097 * 86_400_000 : ms;
};
}
