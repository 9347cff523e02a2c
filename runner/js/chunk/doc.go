// Package chunk makes packages from npm loadable where there is no Node: one chunk of code for each package, which is
// a CommonJS module that knows its neighbours by the ids of their chunks and loads them when they are first required.
//
// What it reads is a tree of packages in npm's layout, as a file system: a folder on the disk, or what an installer has
// resolved and verified in memory. Nothing of a package runs here, and no file outside of the tree is read.
//
// Node's builtins have stand-ins: packages from npm (stream, buffer, events, …), whose tree is locked (standins.lock), and files
// of ours (node/*.js). What has neither can be loaded, and tells when it is called, by the operation [Missing].
//
// A [Cache] keeps bytecode in a folder, and a [Store] has that of one tree. QuickJS does not look whether bytecode is sound,
// so the folder is its user's alone and each file is compared with its hash.
package chunk
