// stream is the package's, with the ways to streams of the web.
const made = require('readable-stream/lib/stream.js');
const web = () => require('node:stream/web');
made.Readable.fromWeb = (stream, options) => made.Readable.from(stream, { objectMode: false, ...options });
made.Readable.toWeb = stream => web().ReadableStream.from(stream);
module.exports = made;
