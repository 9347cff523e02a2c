module.exports = { performance: host.performance };
