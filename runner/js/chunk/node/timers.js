// timers are those that jobs have.
module.exports = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate: host.setImmediate, clearImmediate: host.clearImmediate };
