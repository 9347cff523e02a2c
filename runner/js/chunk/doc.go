// Package chunk makes packages from npm loadable where there is no Node: one chunk of code for each package, which is
// a CommonJS module that knows its neighbours by the ids of their chunks and loads them when they are first required.
//
// What it reads is a tree of packages in npm's layout, as a file system: a folder on the disk, or what an installer has
// resolved and verified in memory. Nothing of a package runs here, and no file outside of the tree is read.
//
// # Node's builtins
//
// They have stand-ins: pinned packages of npm ([StandIns]: streams, buffers, events, …), which are apart from what an adaptor
// brings of the same name, and files of ours (node/*.js) for what takes Go: http and https (clients), undici with its agents
// and mocks, fetch and its classes, zlib, hashes and random bytes of crypto, URLs. What has neither can be loaded, since
// packages load what they never use; what is called of it throws ERR_NOT_BUILT_IN, with its name, and tells Go ([Missing]).
//
// Bodies stream both ways ([Exchange], stream.go): a package reads a response as it comes, and waits until what it writes is taken.
// Errors are those of Node: the same code, errno, syscall and words. Those of sockets have no frames, and so are
// nobody's, as there; others have those of the package that called.
//
// Not the same: nextTick is a microtask among others, headers come in the order of their names, in small letters, there is
// HTTP/1 only, what compresses gives all at its end, and no agent makes connections of its own, so that no proxy is passed by.
//
// A job shares the realm with its adaptors and may change what is global before they load something. It gets at no
// function of Go's by that: loader.js and the prelude take what they need beforehand.
//
// # Kept
//
// A [Cache] keeps bytecode in a folder, and a [Store] has that of one tree. QuickJS does not look whether bytecode is sound,
// so the folder is its user's alone and each file is compared with its hash.
package chunk
