// Package options is the command line and the environment of the worker.
//
// [Table] holds every option: the flags, the help, OPTIONS.md and the reading
// of values all come from it. Each option of OpenFn's ws-worker is in it under
// the same names, so that a deployment made for that one can start this one
// unchanged; those without a meaning here are accepted and [Settings.Notices]
// tells of them.
//
// A flag beats an environment variable. A value that is empty is one that is
// not set: deployments often name a variable and leave it empty.
package options
