// http has Node's client on Go's: requests and responses stream, agents say what of TLS and whether connections are kept.
// There is no server, no upgrade of connections, and no agent that makes connections of its own.
module.exports = require('node:_http')('http:');
