// csv.js reads CSV (RFC 4180), with the options of parseCsv(): delimiter,
// quote, escape, columns, trim, skip_empty_lines, bom, relax_column_count.

() => {
  'use strict';

  // records splits a text into rows of fields.
  function records(text, { delimiter, quote, escape, trim }) {
    const rows = [];
    let row = [];
    let at = 0;
    const tidy = value => (trim ? value.trim() : value);
    const endRow = () => { rows.push(row); row = []; };
    while (at < text.length) {
      let start = at;
      if (trim) while (text[start] === ' ' || text[start] === '\t') start++;
      if (quote && text.startsWith(quote, start)) {
        let value = '';
        at = start + quote.length;
        for (;;) {
          if (at >= text.length) throw new Error(`Quote Not Closed: the parsing is finished with an opening quote at line ${rows.length + 1}`);
          if (text.startsWith(escape + quote, at)) {
            value += quote;
            at += escape.length + quote.length;
          } else if (text.startsWith(quote, at)) {
            at += quote.length;
            break;
          } else value += text[at++];
        }
        row.push(value);
        if (trim) while (text[at] === ' ' || text[at] === '\t') at++;
        if (at < text.length && !text.startsWith(delimiter, at) && text[at] !== '\r' && text[at] !== '\n') {
          throw new Error(`Invalid Closing Quote: got "${text[at]}" at line ${rows.length + 1} instead of delimiter or end of line`);
        }
      } else {
        const end = text.slice(at).search(/[\r\n]/);
        const line = end < 0 ? text.length : at + end;
        let stop = text.indexOf(delimiter, at);
        if (stop < 0 || stop > line) stop = line;
        row.push(tidy(text.slice(at, stop)));
        at = stop;
      }
      if (text.startsWith(delimiter, at)) {
        at += delimiter.length;
        if (at >= text.length) row.push('');
        continue;
      }
      if (text[at] === '\r' && text[at + 1] === '\n') at++;
      at++;
      endRow();
    }
    if (row.length > 0) endRow();
    return rows;
  }

  function parse(input, options) {
    const { delimiter = ',', quote = '"', escape = '"', columns = true, trim = true, bom = true } = options;
    const { skip_empty_lines: skipEmpty = true, relax_column_count: relaxed = false } = options;
    if (typeof input !== 'string') throw new TypeError(`parseCsv() needs the text of a CSV file, not ${input === null ? 'null' : typeof input}`);
    const text = bom && input[0] === '\uFEFF' ? input.slice(1) : input;
    let rows = records(text, { delimiter, quote, escape, trim });
    if (skipEmpty) rows = rows.filter(row => row.length > 1 || row[0] !== '');
    if (!columns) return rows;
    const first = Array.isArray(columns) ? undefined : rows.shift();
    const names = Array.isArray(columns) ? columns : typeof columns === 'function' ? columns(first) : first;
    return rows.map((row, i) => {
      if (row.length !== names.length && !relaxed) {
        throw new Error(`Invalid Record Length: columns length is ${names.length}, got ${row.length} on record ${i + 1}`);
      }
      const record = {};
      for (let j = 0; j < Math.min(names.length, row.length); j++) record[names[j]] = row[j];
      return record;
    });
  }

  return { parse };
};
