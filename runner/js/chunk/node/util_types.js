module.exports = require('util/support/types.js');
