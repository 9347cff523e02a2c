// Package packages has the adaptors that OpenFn publishes ready for the embedded engine: each is fetched from npm's registry
// (package npm), made into chunks of bytecode (package chunk), looked into once, and kept.
//
// # What is looked at
//
// An adaptor is for the embedded engine if what it reaches is there: no builtin of Node's that nothing stands in for, no
// machine code, no Intl and nothing that depends on a language; and if all that it exports loads here, fast enough to be
// worth it. What it declares to depend on has to be there. Packages that are part of an adaptor in verified.json, which a test has compared with Node, may reach what the
// comparison has shown to be of no harm. What calls for something missing while a run executes ends that run, and is for
// Node from then on. The verdict is kept with its reason, and made anew by a version of this program whose chunks are others;
// that an adaptor takes long to load is believed for a day.
//
// # On the disk
//
// All lies in one private folder, which several workers may share: chunks under hashes of what they were made of, which
// are compared when they are read, and a file for each adaptor with what was found out. Files get their names when they are
// complete. The chunks that were not used for longest go when the folder is over its bound, and are made again before the
// next run that needs them: a run has its own in memory. A folder that cannot be used costs time and no more.
//
// The same is kept in the cache of what was fetched (package npm), so that another folder is filled without the work.
//
// What OpenFn's own worker has installed (node_modules/@openfn/language-http_7.2.10) is used as it lies there.
//
// # Concurrency
//
// An adaptor is prepared once for all who ask for it at the same time, two at most at once, and to its end though nobody waits
// any more; [Provider.Close] ends it. Two workers may prepare the same at once.
package packages
