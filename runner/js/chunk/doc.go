// Package chunk makes packages from npm loadable where there is no Node: one chunk of code for each package, which is
// a CommonJS module that knows its neighbours by the ids of their chunks and loads them when they are first required.
//
// What it reads is a tree of packages in npm's layout, as a file system: a folder on the disk, or what an installer has
// resolved and verified in memory. Nothing of a package runs here, and no file outside of the tree is read.
//
// Node's builtins have stand-ins: packages of the tree (stream, buffer, events, …) and files of ours (node/*.js). What
// has neither is an error when it is required, with its name.
//
// Not done yet: a cache on disk, bytecode, loading the parts of a package on first use, undici and http.
package chunk
