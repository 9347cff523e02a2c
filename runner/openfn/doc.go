// Package openfn executes plans with OpenFn's own runtime and adaptors, in Node.
//
// The worker compiles the jobs (package compile) and hands each run to a process
// of its own (package command), which runs the files of the folder host with
// @openfn/runtime. Packages come from npm (package adaptors). Nothing is
// installed or started before the first run that needs it.
//
// # Isolation
//
// A process executes one run, unless [Config.Reuse] says otherwise, under Node's
// permission model: it reads the installed packages and writes its own
// temporary folder, which goes with it; it starts no other process and sees nothing of the
// worker's environment. docs/security.md says what a job can reach and what it cannot.
//
// # Limits
//
// The end of a run's context kills its process. A heap that is full, and memory
// that grows past the run's limit, end the run as OOMError.
package openfn
