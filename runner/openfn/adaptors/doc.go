// Package adaptors is a folder of npm packages: OpenFn's adaptors, and the
// runtime that executes jobs with them.
//
// [Repo.Resolve] returns a package by what a plan calls it, and installs it first
// (package npm) if it is not there. Versions stand side by side, each in a folder of
// its own with all that it depends on:
//
//	@openfn/language-http@7.2.10/
//	  bundle-1f0e2d3c/
//	    prepared.json             what the package exports, and how many files and bytes there are
//	    node_modules/@openfn/language-http/
//	      package.json, index.js  the package to load: an ES module with the same exports
//	      load.cjs, bundle.js     what it consists of
//	      bundle-….cache          V8's code cache, see [Repo.WarmCache]
//	    beside/node_modules/      packages that Node is to find, at the paths where npm has them
//
// # Bundles
//
// Most of what a fresh Node costs is finding, reading and compiling the many files
// of an adaptor. So each package is made into one file by esbuild, from the verified archives in memory, and V8's
// compiled code of it is kept beside. A bundle does what the package does: one of
// an ES module has something under each name in the module's text, one of CommonJS, whose names Node alone knows, is compared
// with the package as it was published; ES modules stay strict code, files
// find those beside them where npm would put them, and native dependencies
// and those that choose by themselves what to load are loaded from there. These alone are on the disk as they were published. A
// package for which this does not work (or that uses await at its top level, or nests too deeply for a parser, or is
// very large) is written with all its files, and used as it was published. The path of a bundle ends like that of the package,
// for OpenFn's runtime judges an error by the paths in its stack. A name that an ES module imports and a CommonJS module does not have is
// undefined in a bundle, where Node would not load the module.
//
// A bundle of exactly these packages that was made before, for whatever folder, is taken from the cache of what was fetched,
// with what it was seen to export; so is V8's code cache. [Config.Again] has both made anew.
//
// undici, by which adaptors speak HTTP, is loaded when something is first read of it: that is most of what loading an adaptor
// costs, and most jobs never do it. Errors of loading it come there as well. All else is loaded in the order of the package.
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
// it, with all its children. No more than two installs are at work at a
// time: a plan may need many packages, and esbuild, which works in this process, takes some 150 MB for one.
// Folders get their names when they are complete and on the disk, so several processes
// may share a repo and a death leaves nothing half done: of two that were made at the same
// time, the first stays. What the dead have left is removed after an hour. A lock in .locks,
// one for each package, keeps two from doing the same work; it goes with who has it.
//
// # Damage
//
// A package that is met later and is not what was installed is installed again: its bundle is
// looked at for each run, the rest when a process first uses it, or when [Repo.Mend] is asked.
//
// Another version of this program makes other bundles, in folders of their own. Where it cannot fetch what it would make them of,
// it uses those that are there.
//
// # Trust
//
// Specifiers come from plans. They are checked against npm's grammar and never
// reach a shell; which packages are allowed is for the caller to say. npm's settings
// are read anew for each install, from the environment, the .npmrc of the working directory, the user's
// and the machine's; they may speak of any variable but those that begin with WORKER_. Code of packages runs when they are looked into and when caches are
// made, as it does in jobs: with PATH, the language and the time zone for an
// environment, and in Node's permission model. What it answers there is believed of
// its own package only.
//
// The registry is trusted with what its packages do: the runtime and the adaptors have the credentials of runs. It is
// not trusted with more: a package that calls itself something else
// is refused, no link is made, and one whose modules import files from
// outside of its folder is not bundled. So is trusted whoever may write into the
// folder of the repo or one above it, for what lies there is executed.
//
// Not promised: that packages are ever removed, and that one is what its publisher
// made: the registry has the sums by which it is verified.
package adaptors
