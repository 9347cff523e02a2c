// zlib has gzip, deflate and brotli on Go's. What undoes a compression streams; what compresses gives all at its end.
const { Transform } = require('node:stream');
const wire = require('node:_wire');
const { wrongType } = require('node:_received');

const failed = ({ message, ...members }) => Object.assign(new Error(message), members);

function convert(operation, kind, data, options) {
  const bytes = typeof data === 'string' ? Buffer.from(data) : data;
  if (!ArrayBuffer.isView(bytes) && !(bytes instanceof ArrayBuffer)) {
    throw wrongType('buffer', 'of type string or an instance of Buffer, TypedArray, DataView, or ArrayBuffer', data);
  }
  const level = options?.level ?? options?.params?.[constants.BROTLI_PARAM_QUALITY] ?? (kind === 'br' ? 6 : -1);
  const answer = JSON.parse(host.call(operation, kind, wire.asBuffer(bytes).toString('base64'), String(level), options?.finishFlush === undefined ? '' : 'some'));
  if (answer.error) throw failed(answer.error);
  const made = Buffer.from(answer.body, 'base64');
  if (made.length > (options?.maxOutputLength ?? Infinity)) {
    throw Object.assign(new RangeError(`Cannot create a Buffer larger than ${options.maxOutputLength} bytes`), { code: 'ERR_BUFFER_TOO_LARGE' });
  }
  return made;
}

class Packer extends Transform {
  #parts = [];
  #kind;
  #options;
  constructor(kind, options) {
    super(options);
    this.#kind = kind;
    this.#options = options;
  }
  _transform(part, encoding, done) {
    this.#parts.push(wire.asBuffer(part, encoding));
    done();
  }
  _flush(done) {
    try {
      done(null, convert('pack', this.#kind, Buffer.concat(this.#parts), this.#options));
    } catch (error) {
      done(error);
    }
  }
  flush(kind, done) { (typeof kind === 'function' ? kind : done)?.(); }
  close(done) { if (done) this.once('close', done); this.destroy(); }
}

class Unpacker extends Transform {
  #stream = new wire.Stream();
  #ended;
  #patient;
  constructor(kind, options) {
    super(options);
    // who asks for what there is, is content with a part
    this.#patient = options?.finishFlush !== undefined && options.finishFlush !== constants.Z_FINISH;
    this.#ended = this.#read(kind);
  }
  async #read(kind) {
    try {
      await this.#stream.unpack(kind);
      for (let part; (part = await this.#stream.next()) !== null;) this.push(part);
    } catch (error) {
      if (!(this.#patient && error.code === 'Z_BUF_ERROR')) this.destroy(error);
    }
  }
  _transform(part, encoding, done) { this.#stream.write(wire.asBuffer(part, encoding)).then(() => done(), () => done()); } // what is left over counts for nothing
  _flush(done) {
    this.#stream.end().catch(() => {});
    this.#ended.then(() => done());
  }
  _destroy(error, done) {
    this.#stream.cancel();
    done(error);
  }
  flush(kind, done) { (typeof kind === 'function' ? kind : done)?.(); }
  close(done) { if (done) this.once('close', done); this.destroy(); }
}

const constants = {
  Z_NO_FLUSH: 0, Z_PARTIAL_FLUSH: 1, Z_SYNC_FLUSH: 2, Z_FULL_FLUSH: 3, Z_FINISH: 4, Z_BLOCK: 5, Z_OK: 0, Z_STREAM_END: 1, Z_NEED_DICT: 2, Z_ERRNO: -1, Z_STREAM_ERROR: -2,
  Z_DATA_ERROR: -3, Z_MEM_ERROR: -4, Z_BUF_ERROR: -5, Z_VERSION_ERROR: -6, Z_NO_COMPRESSION: 0, Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1,
  Z_FILTERED: 1, Z_HUFFMAN_ONLY: 2, Z_RLE: 3, Z_FIXED: 4, Z_DEFAULT_STRATEGY: 0, Z_MIN_WINDOWBITS: 8, Z_MAX_WINDOWBITS: 15, Z_DEFAULT_WINDOWBITS: 15,
  BROTLI_OPERATION_PROCESS: 0, BROTLI_OPERATION_FLUSH: 1, BROTLI_OPERATION_FINISH: 2, BROTLI_PARAM_MODE: 0, BROTLI_PARAM_QUALITY: 1, BROTLI_PARAM_LGWIN: 2, BROTLI_PARAM_SIZE_HINT: 5,
  BROTLI_MODE_GENERIC: 0, BROTLI_MODE_TEXT: 1, BROTLI_MIN_QUALITY: 0, BROTLI_MAX_QUALITY: 11, BROTLI_DEFAULT_QUALITY: 11,
};
module.exports = { constants, ...constants };

const names = [
  ['gzip', 'Gzip', 'pack', 'gzip'], ['gunzip', 'Gunzip', 'unpack', 'gzip'], ['deflate', 'Deflate', 'pack', 'deflate'], ['inflate', 'Inflate', 'unpack', 'inflate'],
  ['deflateRaw', 'DeflateRaw', 'pack', 'raw'], ['inflateRaw', 'InflateRaw', 'unpack', 'raw'], ['unzip', 'Unzip', 'unpack', 'any'],
  ['brotliCompress', 'BrotliCompress', 'pack', 'br'], ['brotliDecompress', 'BrotliDecompress', 'unpack', 'br'],
];
for (const [name, Class, operation, kind] of names) {
  const Base = operation === 'pack' ? Packer : Unpacker;
  const Made = class extends Base { constructor(options) { super(kind, options); } };
  Object.defineProperty(Made, 'name', { value: Class });
  module.exports[Class] = Made;
  module.exports['create' + Class] = options => new Made(options);
  module.exports[name + 'Sync'] = (data, options) => convert(operation, kind, data, options);
  module.exports[name] = (data, options, done) => {
    if (typeof options === 'function') [options, done] = [undefined, options];
    let made, error = null;
    try { made = convert(operation, kind, data, options); } catch (thrown) { error = thrown; }
    if (error?.code === 'ERR_INVALID_ARG_TYPE') throw error;
    process.nextTick(() => done(error, made));
  };
}
