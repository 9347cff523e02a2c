// crypto on Go's: hashes, HMAC, PBKDF2, UUIDs and random bytes. Ciphers, keys and signatures are not here.
const missing = require('node:_missing');
const { asBuffer } = require('node:_wire');
const text = bytes => asBuffer(bytes).toString('base64');
const bytesOf = answer => Buffer.from(answer, 'base64');
const coded = (error, code) => Object.assign(error, { code });
const nameOf = name => String(name).toLowerCase().replace(/^rsa-sha1-2$/, 'sha1').replace(/^rsa-/, '').replace(/[-/]/g, '');
const names = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'sha512224', 'sha512256', 'sha3224', 'sha3256', 'sha3384', 'sha3512'];
const ofNode = /^(ripemd|rmd160|blake2|sm3|md5sha1|shake|ssl3|idrsassa|.*withrsa)/; // what else Node has
const check = (name, refuse) => {
  if (names.includes(nameOf(name))) return;
  throw ofNode.test(nameOf(name)) ? missing(`crypto hash ${name}`) : refuse();
};
const encoded = (bytes, encoding) => (encoding && encoding !== 'buffer' ? bytes.toString(encoding) : bytes);

class Hash {
  #name;
  #key;
  #parts;
  #done = false;
  #stream;
  constructor(name, key, parts = []) {
    this.#name = name;
    this.#key = key;
    this.#parts = parts;
  }
  #open() {
    if (this.#done) throw coded(new Error('Digest already called'), 'ERR_CRYPTO_HASH_FINALIZED');
  }
  update(data, encoding) {
    this.#open();
    if (typeof data !== 'string' && !ArrayBuffer.isView(data)) {
      throw coded(new TypeError('The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView.'), 'ERR_INVALID_ARG_TYPE');
    }
    this.#parts.push(Buffer.from(asBuffer(data, encoding)));
    return this;
  }
  digest(encoding) {
    this.#open();
    this.#done = true;
    const data = text(Buffer.concat(this.#parts));
    return encoded(bytesOf(this.#key === undefined ? host.call('hash', this.#name, data) : host.call('hmac', this.#name, data, text(this.#key))), encoding);
  }
  copy() {
    this.#open();
    return new Hash(this.#name, this.#key, [...this.#parts]);
  }
  // asStream is for who pipes into it; most do not, and streams are large.
  asStream() {
    const hash = this;
    const { Transform } = require('node:stream');
    return (this.#stream ??= new Transform({
      transform(part, encoding, done) { hash.update(part, encoding); done(); },
      flush(done) { done(null, hash.digest()); },
    }));
  }
}
for (const name of ['on', 'once', 'off', 'emit', 'addListener', 'removeListener', 'listenerCount', 'write', 'end', 'read', 'pipe', 'unpipe', 'setEncoding', 'resume', 'pause', 'destroy', Symbol.asyncIterator]) {
  Object.defineProperty(Hash.prototype, name, { configurable: true, writable: true, value(...args) { const made = this.asStream()[name](...args); return made === this.asStream() ? this : made; } });
}
for (const name of ['readable', 'writable', '_readableState', '_writableState', 'readableEnded', 'writableEnded', 'destroyed', 'writableNeedDrain']) {
  Object.defineProperty(Hash.prototype, name, { configurable: true, get() { return this.asStream()[name]; } });
}

const createHash = name => {
  check(name, () => new Error('Digest method not supported'));
  return new Hash(nameOf(name));
};
const createHmac = (name, key) => {
  check(name, () => coded(new Error('Invalid digest: ' + name), 'ERR_CRYPTO_INVALID_DIGEST'));
  return new Hash(nameOf(name), typeof key === 'string' ? Buffer.from(key) : key);
};

const later = (make, done) => {
  if (!done) return make();
  const made = make();
  process.nextTick(() => done(null, made));
};
const random = size => {
  // Go makes so many at once.
  if (!(size >= 0 && size <= 2 ** 20)) throw coded(new RangeError(`The value of "size" is out of range. It must be >= 0 && <= ${2 ** 20}. Received ${size}`), 'ERR_OUT_OF_RANGE');
  return bytesOf(host.call('random', size));
};
const randomBytes = (size, done) => later(() => random(size), done);
const randomFillSync = (array, offset = 0, size = array.length - offset) => {
  const unit = array.BYTES_PER_ELEMENT ?? 1;
  new Uint8Array(array.buffer ?? array, (array.byteOffset ?? 0) + offset * unit, size * unit).set(random(size * unit));
  return array;
};
const getRandomValues = array => {
  if (array.byteLength > 65536) throw new DOMException(`The requested length exceeds 65,536 bytes`, 'QuotaExceededError');
  return randomFillSync(array);
};
const randomUUID = () => host.call('uuid');
const randomInt = (low, high, done) => {
  if (high === undefined || typeof high === 'function') [low, high, done] = [0, low, high];
  return later(() => low + Number(BigInt('0x' + random(8).toString('hex')) % BigInt(high - low)), done);
};
const pbkdf2Sync = (password, salt, iterations, length, digest) => {
  check(digest, () => coded(new TypeError('Invalid digest: ' + digest), 'ERR_CRYPTO_INVALID_DIGEST'));
  return bytesOf(host.call('pbkdf2', nameOf(digest), text(password), text(salt), String(iterations), String(length)));
};

const webcrypto = {
  getRandomValues, randomUUID,
  subtle: { digest: async (name, data) => new Uint8Array(createHash(name.name ?? name).update(asBuffer(data)).digest()).buffer },
};
module.exports = {
  createHash, createHmac, Hash, Hmac: Hash, getHashes: () => names, constants: {}, webcrypto, subtle: webcrypto.subtle,
  hash: (name, data, encoding = 'hex') => createHash(name).update(data).digest(encoding),
  randomBytes, pseudoRandomBytes: randomBytes, randomUUID, getRandomValues, randomInt, randomFillSync,
  randomFill: (array, ...rest) => later(() => randomFillSync(array, ...rest.filter(one => typeof one === 'number')), rest.at(-1)),
  pbkdf2Sync, pbkdf2: (password, salt, iterations, length, digest, done) => later(() => pbkdf2Sync(password, salt, iterations, length, digest), done),
  timingSafeEqual: (a, b) => {
    if (a.byteLength !== b.byteLength) throw coded(new RangeError('Input buffers must have the same byte length'), 'ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH');
    [a, b] = [asBuffer(a), asBuffer(b)];
    let differ = 0;
    for (let i = 0; i < a.length; i++) differ |= a[i] ^ b[i];
    return differ === 0;
  },
};
for (const name of ['createCipheriv', 'createDecipheriv', 'createSign', 'createVerify', 'sign', 'verify', 'createPrivateKey', 'createPublicKey', 'createSecretKey', 'generateKeyPair',
  'generateKeyPairSync', 'publicEncrypt', 'publicDecrypt', 'privateEncrypt', 'privateDecrypt', 'scrypt', 'scryptSync', 'hkdf', 'hkdfSync', 'createECDH', 'createDiffieHellman', 'X509Certificate']) {
  module.exports[name] = function () { throw missing('crypto.' + name); };
}
