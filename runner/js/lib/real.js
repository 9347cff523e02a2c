// real.js loads packages from npm, for steps with adaptors that are not built in.

let requirePackage;
const exchanges = new NativeMap();
let lastExchange = 0;

// packages returns the require of packages.
function packages() {
  if (requirePackage) return requirePackage;
  if (!NativeError.captureStackTrace) {
    hide(NativeError, 'captureStackTrace', object => { hide(object, 'stack', new NativeError(read(object, 'message')).stack); });
  }
  const call = (operation, ...args) => host('call', operation, ...args);
  const exchange = text => new Promise(done => {
    mapSet(exchanges, ++lastExchange, done);
    host('exchange', lastExchange, text);
  });
  requirePackage = late('loader')(id => native(id), call, exchange, NativeFunction, { ...makeConsole('ADA'), debug() {}, trace() {} });
  return requirePackage;
}

// bufferOfJobs is Node's Buffer, which jobs may not construct, as with OpenFn's runtime.
function bufferOfJobs() {
  const refuse = () => { throw new NativeError('Do not call Buffer() constructor directly. Use Buffer.from() instead.'); };
  return new Proxy(packages()('node:buffer').Buffer, { apply: refuse, construct: refuse });
}

// answered hands over what came of an exchange.
function answered(id, text) {
  const done = mapGet(exchanges, id);
  mapDelete(exchanges, id);
  if (done) done(text);
}

// exportsOf loads all that a package exports, also what is loaded when it is first read, and returns the names.
function exportsOf(entry) {
  const all = packages()(entry);
  for (const name of keysOf(all)) {
    const one = read(all, name);
    if (one !== null && typeof one === 'object') for (const member of keysOf(one)) read(one, member);
  }
  return stringify(keysOf(all));
}
