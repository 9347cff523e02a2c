// Package options is the command line, the environment and the config file of the
// worker.
//
// [Table] holds every option: the flags, the help, OPTIONS.md, the names in a file,
// the defaults and the reading of values all come from it. Each option of OpenFn's
// ws-worker is in it under the same names, so that a deployment made for that one
// can start this one unchanged; those without a meaning here are accepted and
// [Settings.Notices] tells of them.
//
// [Collect] finds out what each option is set to, and where: a flag beats an
// environment variable, which beats the config file, which beats the default. A
// value that is empty is one that is not set: deployments often name a variable and
// leave it empty. [Values.Settings] makes sense of the values, and [Values.Print]
// shows them.
//
// An [Error] is one line that says where a value was set, and what to write instead.
// It has no secret in it.
package options
