// Package js executes plans in QuickJS, inside the worker's own process, without Node.
// Jobs have the adaptors that [Config.Packages] has from npm, unmodified, or, where that is
// enough for all jobs of a plan, those operations of @openfn/language-common
// that are proven to be the published ones (operations.go). A job that needs more
// ends its run, before run:start, with an error that names it. An adaptor that calls for
// something of Node's that nothing stands in for ends its run as an exception.
//
// # Order
//
// Steps of a run execute one at a time, breadth first; runs execute
// concurrently. All jobs and conditions of a plan are compiled before the first
// step starts. Where branches join, the joined job is one step for each of them.
//
// # Isolation
//
// Each step has a VM to itself, and so have the conditions of a run. Afterwards all of its memory is made what it was before its
// first step, so that it serves again; see package vm. A state goes from one VM to the next as JSON. Whatever a job does to its globals ends
// with its step, and no job reaches the functions that stand behind its globals.
//
// # Limits
//
// [runner.Limits] bound a run. One that exhausts the memory of a VM is killed,
// even if its job catches the error that QuickJS throws first; so is one whose
// state, as JSON, is over [runner.Limits.StateLimitMB], or whose states that wait are together over
// a quarter of the memory. A plan is bounded in the nodes that are visited. When the context ends, the job
// stops at its next loop or call. A timer still pending when a step's last
// operation has returned is dropped. An exception that nobody catches, in a
// timer or as a rejected promise, ends the run as a crash.
//
// # What is not promised
//
// A single call of one of QuickJS's own functions cannot be interrupted. Those
// that could go on for minutes, on arrays of absurd length, are refused.
//
// What differs from OpenFn's own engine is listed in docs/compatibility.md.
package js
