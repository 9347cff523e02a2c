// Package worker has the conformance cases for workers of Lightning, in whatever language they are written.
//
// Each case has a mock server of its own and starts the worker under test against it, by the variables of
// OpenFn's ws-worker. It asserts what the server saw: frames, what it recorded of runs, how the process
// ended. A door before the server counts the requests for a socket, and refuses them where a case wants it.
//
// What jobs do is written in JavaScript, as in Lightning: fn(state => …) of @openfn/language-common, with
// setTimeout and console.log, and nothing more.
//
// Time: cases wait for events, and end early when all has come. Where a case has to see that something
// does not happen, it watches for a while, and its result is true of that while.
package worker
