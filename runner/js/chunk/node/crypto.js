// crypto on Go's: hashes, HMAC, UUIDs and random bytes. Ciphers, keys and signatures are not here.
const text = bytes => Buffer.from(bytes).toString('base64');
const bytesOf = answer => Buffer.from(answer, 'base64');

class Hash {
  #name;
  #key;
  #parts = [];
  #done = false;
  constructor(name, key) {
    this.#name = name;
    this.#key = key;
    host.call('hash', name, ''); // whether there is such a hash
  }
  update(data, encoding) {
    if (this.#done) throw Object.assign(new Error('Digest already called'), { code: 'ERR_CRYPTO_HASH_FINALIZED' });
    if (typeof data !== 'string' && !ArrayBuffer.isView(data)) {
      throw Object.assign(new TypeError('The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView.'), { code: 'ERR_INVALID_ARG_TYPE' });
    }
    this.#parts.push(typeof data === 'string' ? Buffer.from(data, encoding) : Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    return this;
  }
  digest(encoding) {
    if (this.#done) throw Object.assign(new Error('Digest already called'), { code: 'ERR_CRYPTO_HASH_FINALIZED' });
    this.#done = true;
    const data = text(Buffer.concat(this.#parts));
    const sum = bytesOf(this.#key === undefined ? host.call('hash', this.#name, data) : host.call('hmac', this.#name, data, text(this.#key)));
    return encoding && encoding !== 'buffer' ? sum.toString(encoding) : sum;
  }
}

const randomBytes = (size, callback) => {
  const bytes = bytesOf(host.call('random', size));
  if (!callback) return bytes;
  host.queueMicrotask(() => callback(null, bytes));
};
const randomUUID = () => host.call('uuid');

module.exports = {
  createHash: name => new Hash(name),
  createHmac: (name, key) => new Hash(name, typeof key === 'string' ? Buffer.from(key) : key),
  getHashes: () => ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'],
  randomBytes, randomUUID, constants: {},
  getRandomValues: array => { array.set(randomBytes(array.byteLength)); return array; },
  randomInt: (low, high) => {
    if (high === undefined) [low, high] = [0, low];
    return low + Number(BigInt('0x' + randomBytes(8).toString('hex')) % BigInt(high - low));
  },
  timingSafeEqual: (a, b) => {
    if (a.length !== b.length) throw new RangeError('Input buffers must have the same byte length');
    let differ = 0;
    for (let i = 0; i < a.length; i++) differ |= a[i] ^ b[i];
    return differ === 0;
  },
};
