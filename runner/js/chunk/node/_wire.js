// _wire is the way to Go for what takes time: requests, bodies that come and go in parts, and compressions.
const missing = require('node:_missing');
let last = 0;

async function ask(what) {
  const answer = JSON.parse(await host.exchange(JSON.stringify(what)));
  if (answer.error) throw failed(answer.error);
  return answer;
}

// failed makes the error that a package would get of Node.
function failed({ name, message, ...members }) {
  const error = Object.assign(new Error(message), members);
  if (name) error.name = name;
  else error.stack = `Error: ${message}`; // of Node's own, whose frames are nobody's
  return error;
}

const asBuffer = (part, encoding) => (typeof part === 'string' ? Buffer.from(part, encoding) : Buffer.isBuffer(part) ? part
  : ArrayBuffer.isView(part) ? Buffer.from(part.buffer, part.byteOffset, part.byteLength) : Buffer.from(part));
const packed = part => (typeof part === 'string' ? { Text: part } : { Body: asBuffer(part).toString('base64') });

// Stream is a body under way in both directions; what it was opened with is sent.
class Stream {
  #id = ++last;
  #done = false;
  #over = false;
  // request sends one with a body that is there or not, or has it follow by write and end; length is of how many bytes, if known.
  async request(what, body, length) {
    const follows = length !== undefined;
    const answer = await ask({
      ...what, Stream: this.#id, Follows: follows, Length: follows ? (length ?? -1) : 0, ...(body === undefined ? {} : packed(body)),
    });
    this.#done = this.#over = answer.done;
    return answer;
  }
  unpack(compression) { return ask({ Op: 'unpack', Stream: this.#id, Method: compression }); }
  write(part) { return ask({ Op: 'write', Stream: this.#id, ...packed(part) }); }
  end() { return ask({ Op: 'end', Stream: this.#id }); }
  // next returns the next bytes, null after the last.
  async next() {
    if (this.#done) return null;
    const { body, done } = await ask({ Op: 'read', Stream: this.#id });
    this.#done = this.#over = done;
    return done ? null : Buffer.from(body, 'base64');
  }
  // rest returns all that still comes: a string where it is valid UTF-8, and else bytes.
  async rest() {
    if (this.#done) return '';
    this.#done = true; // for who asks meanwhile
    const { body, text } = await ask({ Op: 'rest', Stream: this.#id });
    this.#over = true;
    return text ?? Buffer.from(body, 'base64');
  }
  cancel() {
    if (this.#over) return;
    this.#done = this.#over = true;
    host.exchange(JSON.stringify({ Op: 'cancel', Stream: this.#id }));
  }
}

// send makes a request, with a body that is a string, bytes, or an iterable of such. It returns the answer and the stream, and ends
// with the reason of a signal.
async function send(what, body, signal) {
  signal?.throwIfAborted();
  const stream = new Stream();
  const follows = body !== undefined && typeof body !== 'string' && !ArrayBuffer.isView(body);
  let broken;
  const stop = reason => { broken ??= { reason }; stream.cancel(); };
  const abort = () => stop(signal.reason);
  signal?.addEventListener('abort', abort);
  try {
    const request = stream.request(what, follows ? undefined : body, follows ? null : undefined);
    if (follows) pump(stream, body).catch(stop);
    return { answer: await request, stream };
  } catch (error) {
    throw broken ? broken.reason : error;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

// check refuses what a body cannot consist of.
function check(part) {
  if (typeof part === 'string' || ArrayBuffer.isView(part) || part instanceof ArrayBuffer) return;
  throw require('node:_received').wrongType('string', 'of type string or an instance of Buffer or ArrayBuffer', part);
}

async function pump(stream, body) {
  for await (const part of body) {
    check(part);
    try {
      await stream.write(part);
    } catch {
      return; // the request is over, and says why
    }
  }
  await stream.end();
}

const texts = value => (value === undefined || value === null ? [] : [].concat(value).map(String));

// tlsOf takes from options what they say of TLS.
function tlsOf(options = {}) {
  for (const name of ['pfx', 'passphrase', 'socketPath']) {
    if (options[name]) throw missing(`the option ${name} of TLS`);
  }
  return {
    CA: texts(options.ca), Cert: texts(options.cert).join('\n'), Key: texts(options.key).join('\n'), Servername: options.servername ?? '',
    RejectUnauthorized: options.rejectUnauthorized,
  };
}

async function multipart(form, Blob) {
  const boundary = '----formdata-undici-0' + String(Math.floor(Math.random() * 1e11)).padStart(11, '0');
  const quoted = text => text.replace(/\r\n?|\n/g, '%0D%0A').replace(/"/g, '%22');
  const parts = [];
  for (const [name, value] of form) {
    const file = value instanceof Blob;
    parts.push(Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${quoted(name)}"` +
      (file ? `; filename="${quoted(value.name)}"\r\nContent-Type: ${value.type || 'application/octet-stream'}` : '') + '\r\n\r\n'));
    parts.push(file ? Buffer.from(await value.arrayBuffer()) : Buffer.from(value.replace(/\r?\n|\r/g, '\r\n')), Buffer.from('\r\n'));
  }
  parts.push(Buffer.from(`--${boundary}--\r\n`));
  return [Buffer.concat(parts), 'multipart/form-data; boundary=' + boundary];
}

module.exports = { Stream, send, check, tlsOf, multipart, asBuffer, failed };
