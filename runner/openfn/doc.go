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
// worker's environment. On Linux the kernel holds it to that as well, for which this program
// starts itself, and then becomes the process. So a program that embeds the worker must be one that
// can be started twice: nothing of its own is executed but the initialisation of some
// packages. docs/security.md says what a job can reach and what it cannot.
//
// # Failures of the worker
//
// What keeps a run from being executed and lies in this machine, its network or its registry
// is [runner.Unable], and [Engine.Check] tells when it is over: a registry that cannot be
// reached or wants other credentials, a disk that is full, a Node that does not start. A
// package or version that does not exist is the run's failure, as is one that is not installed where
// nothing can be installed on purpose: npm's settings say to be offline, or the folder was read-only
// when Check was first asked, and the runtime is there. A runtime that is damaged is
// installed again by the run that meets it.
//
// # Limits
//
// The end of a run's context kills its process. A heap that is full, and memory
// that grows past the run's limit, end the run as OOMError; a temporary folder that does,
// as DiskError.
package openfn
