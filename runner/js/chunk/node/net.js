// net knows addresses. There are no sockets: what packages ask of the network goes by http, https, undici and fetch.
const missing = require('node:_missing');
const notHere = what => () => { throw missing('net.' + what); };
const isIPv4 = text => /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/.test(text) && !/(^|\.)0\d/.test(text);
const isIPv6 = text => String(text).includes(':') && !/[[\]/]/.test(text) && require('node:_web').URL.canParse(`http://[${String(text).replace(/%.*$/, '')}]/`);
module.exports = {
  isIPv4, isIPv6, isIP: text => (isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0),
  Socket: class { constructor() { notHere('Socket')(); } }, Server: class { constructor() { notHere('Server')(); } },
  connect: notHere('connect'), createConnection: notHere('createConnection'), createServer: notHere('createServer'),
};
