module.exports = require('node:_http')('https:');
