// Package npm installs packages as the program of that name does, without it and
// without Node: it finds the versions, fetches them and puts them at the same paths.
//
// A [Client] asks registries as npm's settings say ([Load]). [Client.Files] is a
// package and all that it needs below a node_modules folder, in memory: who reads most of it only once, such as
// a bundler, writes what is to stay.
//
// # What is the same
//
// Ranges, tags, aliases ("npm:"), peer and optional dependencies, the choice among versions
// (latest first, then what is neither deprecated nor for another Node) and where each
// package goes are those of npm 11, but for packages that bring a shrinkwrap or others of their
// own in their archive, whose lists count for nothing. Optional packages for other
// systems are left out. What does not come from a registry (git, folders, URLs) is refused.
//
// # What never happens
//
// No script of a package runs, no link is made, and nothing is written but the cache.
// Declarations of types and source maps, which no program loads, are left out.
//
// # What is believed
//
// A registry says which versions there are, and which sum an archive has. All else is
// checked: an archive without a SHA-512 sum, or with another one, is refused before it is
// opened; names and paths have to stay in their folders; bytes, files, packages and
// time have bounds. Credentials go to the registry that they were set for, and over no redirect to another host. Hosts that no
// setting names may serve archives only at public addresses, and over TLS if the registry is.
//
// # Cache
//
// What was verified is kept in a private folder, by its sum, metadata by its address, and what was made of packages
// ([Client.Keep]) by a key; trees are kept in the same way. All is looked at again when it is read, so that damage costs
// another fetch and no more; what was made is not believed of a folder that others can write. Several processes may share
// the folder, and may be killed at any moment. The least used goes when the folder is over its bound.
//
// # Concurrency
//
// All methods of a Client may be called at once. They end with their context, and so do all
// connections and goroutines that they began.
package npm
