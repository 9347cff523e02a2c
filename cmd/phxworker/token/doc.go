// Package token keeps the token of a worker's controls where the commands of its user
// find it by themselves: in a file of that user's alone, which is named after the
// address that the worker listens at.
//
// The file is for programs of the same user; root's find that of the systemd unit alone.
// Another user of the machine
// can neither read it nor put one in its place: the folder must be a real one, of the
// worker's user, which nobody else can write to. A process that runs as the worker's
// user gets it, unless something else keeps files from it.
//
// Nothing here waits, and the functions may be called concurrently. Two workers of one
// network do not write one file, since they cannot listen at one address. Two containers
// that share the folder may: then it is the later one's, which alone removes it, and
// commands find no token for the earlier one. A worker locks its file as long as it lives;
// the next one removes those that nobody has locked.
package token
