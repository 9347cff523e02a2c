// Package adaptors is a folder of npm packages: OpenFn's adaptors, and the
// runtime that executes jobs with them.
//
// [Repo.Resolve] returns a package by what a plan calls it, and installs it first
// (package npm) if it is not there. Versions stand side by side, each in a folder of
// its own with all that it depends on:
//
//	@openfn/language-http@7.2.10/
//	  node_modules/               at the paths where npm has them
//	  installed.json              how many files and bytes that were
//	  bundle-1f0e2d3c/
//	    prepared.json             what the package exports
//	    node_modules/@openfn/language-http/
//	      package.json, index.js  the package to load: an ES module with the same exports
//	      load.cjs, bundle.js     what it consists of
//	      bundle-….cache          V8's code cache, see [Repo.WarmCache]
//
// # Bundles
//
// Most of what a fresh Node costs is finding, reading and compiling the many files
// of an adaptor. So each package is made into one file by esbuild, and V8's
// compiled code of it is kept beside. A bundle does what the package does: its
// names are compared with those of the package, ES modules stay strict code, files
// find those beside them where they were installed, and native or optional dependencies
// and those that choose by themselves what to load are loaded from there. A
// package for which this does not work (or that uses await at its top level)
// is used as it was installed. The path of a bundle ends like that of the package,
// for OpenFn's runtime judges an error by the paths in its stack.
//
// What OpenFn's own worker has installed in the folder (node_modules/@openfn/language-http_7.2.10)
// is used as it lies there, unless the same version is here too.
//
// A process has one instance of a package, also if it is imported under several
// queries.
//
// # Concurrency
//
// An install is shared by all who ask for the package while it runs, and goes on
// though none of them waits any more, for ten minutes at most; [Repo.Close] ends
// it, with esbuild and all its children. No more than two installs or runs of esbuild are at work at a
// time: a plan may need many packages.
// Folders get their names when they are complete and on the disk, so several processes
// may share a repo and a death leaves nothing half done: of two that were made at the same
// time, the first stays. What the dead have left is removed after an hour. A lock in .locks,
// one for each package, keeps two from doing the same work; it goes with who has it.
//
// # Damage
//
// A package that is met later and is not what was installed is installed again: its bundle is
// looked at for each run, the rest when a process first uses it without a bundle, or when [Repo.Mend] is asked. One
// that Node cannot load is installed again once, unless its files are known to be whole.
//
// # Trust
//
// Specifiers come from plans. They are checked against npm's grammar and never
// reach a shell; which packages are allowed is for the caller to say. npm's settings
// are read anew for each install, from the environment, the .npmrc of the working directory, the user's
// and the machine's; they may speak of any variable but those that begin with WORKER_. esbuild
// has what jobs have. Code of packages runs when they are looked into and when caches are
// made, as it does in jobs: with PATH, the language and the time zone for an
// environment, and in Node's permission model. What it answers there is believed of
// its own package only.
//
// The registry is trusted with what its packages do: esbuild runs with all rights of
// the worker's user, the runtime and the adaptors have the credentials of runs. It is
// not trusted with more: a package that calls itself something else, or brings links
// that lead out of its folder, is refused, and one whose modules import files from
// outside of its folder is not bundled. So is trusted whoever may write into the
// folder of the repo or one above it, for what lies there is executed.
//
// Not promised: that packages are ever removed, and that one is what its publisher
// made: the registry has the sums by which it is verified.
package adaptors
