// dates.js has dates be read from texts as V8 reads them, which takes nearly anything for a date where QuickJS takes something
// else. And it gives the text of a date the name of its time zone, which QuickJS leaves out. Only that of UTC is known here:
// where the worker has another zone, it leaves jobs with dates to Node.

const NativeDate = Date;
const { construct } = Reflect;
// What both read alike, and nearly every text of a date is.
const plainDate = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?:T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,3})?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?)?$/;
let dateText;

const readDate = text => (apply(exec, plainDate, [text]) ? parseNatively(text) : (dateText ??= late('datetext')(apply, construct, NativeDate))(text));
const parseNatively = NativeDate.parse;

function installDates() {
  if (utc) installZone();
  const { prototype } = NativeDate;
  const { toString } = prototype;
  function Date(year, month, day, hours, minutes, seconds, ms) {
    if (!new.target) return apply(toString, new NativeDate(), []);
    if (arguments.length === 1 && typeof year === 'string') return construct(NativeDate, [readDate(year)], new.target);
    return construct(NativeDate, arguments, new.target);
  }
  define(Date, 'prototype', { __proto__: null, value: prototype, writable: false });
  hide(Date, 'now', NativeDate.now);
  hide(Date, 'parse', { parse(text) { return readDate(`${text}`); } }.parse);
  hide(Date, 'UTC', NativeDate.UTC);
  hide(prototype, 'constructor', Date);
  hide(globalThis, 'Date', Date);
}

function installZone() {
  const { toString, toTimeString } = NativeDate.prototype;
  const named = text => (text === 'Invalid Date' ? text : text + ' (Coordinated Universal Time)');
  hide(NativeDate.prototype, 'toString', { toString() { return named(apply(toString, this, [])); } }.toString);
  hide(NativeDate.prototype, 'toTimeString', { toTimeString() { return named(apply(toTimeString, this, [])); } }.toTimeString);
}
