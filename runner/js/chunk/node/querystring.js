// querystring is Node's: what no text can be made of is empty, and what is badly escaped is read byte by byte.
const primitive = value => (typeof value === 'string' ? value : (typeof value === 'number' && Number.isFinite(value)) || ['bigint', 'boolean'].includes(typeof value) ? String(value) : '');

function escape(value) {
  const text = typeof value === 'symbol' ? value + '' : String(value);
  if (!text.isWellFormed()) throw Object.assign(new URIError('URI malformed'), { code: 'ERR_INVALID_URI' });
  return encodeURIComponent(text);
}

function unescapeBuffer(text) {
  const bytes = [];
  for (let i = 0; i < text.length; i++) {
    if (/^%[\da-f]{2}$/i.test(text.slice(i, i + 3))) {
      bytes.push(parseInt(text.slice(i + 1, i + 3), 16));
      i += 2;
    } else {
      bytes.push(text.charCodeAt(i) & 0xff);
    }
  }
  return Buffer.from(bytes);
}

function unescape(value) {
  const text = String(value);
  try {
    return decodeURIComponent(text);
  } catch {
    return unescapeBuffer(text).toString();
  }
}

function stringify(object, separator = '&', equals = '=', options) {
  const encode = options?.encodeURIComponent ?? module.exports.escape;
  if (object === null || typeof object !== 'object') return '';
  const fields = [];
  for (const key of Object.keys(object)) {
    const value = object[key];
    for (const one of Array.isArray(value) ? value : [value]) fields.push(encode(key) + (equals || '=') + encode(primitive(one)));
  }
  return fields.join(separator || '&');
}

function parse(text, separator, equals, options) {
  const made = Object.create(null);
  if (typeof text !== 'string' || text === '') return made;
  separator = String(separator || '&');
  equals = String(equals || '=');
  const most = options?.maxKeys ?? 1000;
  const own = options?.decodeURIComponent;
  const decode = part => {
    const spaced = part.replaceAll('+', own ? '%20' : ' ');
    if (!own && !/%[\da-f]{2}/i.test(part)) return spaced;
    try {
      return (own ?? module.exports.unescape)(part.replaceAll('+', '%20'));
    } catch {
      return unescape(part);
    }
  };
  let pairs = text.split(separator);
  if (most > 0) pairs = pairs.slice(0, most);
  for (const pair of pairs) {
    if (pair === '') continue;
    const at = pair.indexOf(equals);
    const [key, value] = (at < 0 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + equals.length)]).map(decode);
    if (key in made) made[key] = [].concat(made[key], value);
    else made[key] = value;
  }
  return made;
}

module.exports = { unescapeBuffer, unescape, escape, stringify, encode: stringify, parse, decode: parse };
