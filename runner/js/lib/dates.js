// dates.js gives the text of a date the name of its time zone, which QuickJS leaves out. Only that of UTC is known here:
// where the worker has another zone, it leaves jobs with dates to Node.

function installDates() {
  if (!utc) return;
  const { toString, toTimeString } = Date.prototype;
  const named = text => (text === 'Invalid Date' ? text : text + ' (Coordinated Universal Time)');
  hide(Date.prototype, 'toString', { toString() { return named(apply(toString, this, [])); } }.toString);
  hide(Date.prototype, 'toTimeString', { toTimeString() { return named(apply(toTimeString, this, [])); } }.toTimeString);
}
