// undici, which is not here yet: what is made of it can be loaded, and fails when it is used.
const web = require('node:web');

const missing = name => function () {
  throw Object.assign(new Error(`${name} of undici is not here yet`), { code: 'UND_ERR_NOT_SUPPORTED' });
};
class Dispatcher {
  compose() { return this; }
  request() { return missing('request')(); }
}
class Agent extends Dispatcher {}
class MockAgent extends Dispatcher {}
module.exports = {
  Agent, MockAgent, Dispatcher, Client: Agent, Pool: Agent, FormData: web.FormData, request: missing('request'), fetch: missing('fetch'),
  interceptors: { redirect: () => dispatch => dispatch, decompress: () => dispatch => dispatch },
  setGlobalDispatcher() {}, getGlobalDispatcher: () => new Agent(),
};
