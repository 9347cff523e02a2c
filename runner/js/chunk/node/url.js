// url is the package's old parser, with the classes of the web and what goes with them.
const legacy = require('url/');
const { URL, URLSearchParams } = require('node:_web');

module.exports = {
  ...legacy, URL, URLSearchParams,
  // format takes a URL of the web as well.
  format(url, options) {
    if (!(url instanceof URL)) return legacy.format(url);
    const made = new URL(url.href);
    if (options?.fragment === false) made.hash = '';
    if (options?.search === false) made.search = '';
    if (options?.auth === false) made.username = made.password = '';
    return made.href;
  },
  fileURLToPath(url) {
    const { protocol, pathname } = new URL(url);
    if (protocol !== 'file:') throw Object.assign(new TypeError('The URL must be of scheme file'), { code: 'ERR_INVALID_URL_SCHEME' });
    return decodeURIComponent(pathname);
  },
  pathToFileURL: path => new URL('file://' + encodeURI(path).replace(/[?#]/g, encodeURIComponent)),
  urlToHttpOptions: ({ protocol, hostname, hash, search, pathname, href, port, username, password }) => ({
    __proto__: null, protocol, hostname: hostname.replace(/^\[|\]$/g, ''), hash, search, pathname, path: pathname + search, href,
    ...(port === '' ? {} : { port: Number(port) }), ...(username || password ? { auth: `${decodeURIComponent(username)}:${decodeURIComponent(password)}` } : {}),
  }),
  domainToASCII: name => (URL.canParse('ws://' + name) ? new URL('ws://' + name).hostname : ''),
};
