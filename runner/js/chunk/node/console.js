module.exports = host.console;
