// os, of a machine about which there is nothing to know.
module.exports = {
  EOL: '\n', platform: () => 'linux', type: () => 'Linux', release: () => '0', arch: () => 'x64', hostname: () => 'localhost',
  tmpdir: () => '/', homedir: () => '/', cpus: () => [], networkInterfaces: () => ({}), endianness: () => 'LE', totalmem: () => 0,
  freemem: () => 0, userInfo: () => ({}), version: () => '', availableParallelism: () => 1, constants: { signals: {}, errno: {} },
};
