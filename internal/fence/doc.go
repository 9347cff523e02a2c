// Package fence starts a process with less than its user may do. It makes
// nothing of the worker's own smaller.
//
// The kernel's fences are for the process that asks for them, so this program
// starts itself: under another name ([Policy.Wrap]) it does nothing but put up the
// fences in its own place and execute the program, which so has the same id, parent,
// group and pipes as if it had been started at once. Whatever imports this package
// recognises that name before its own main begins, tests and programs that embed the
// worker among them.
//
// # What is not promised
//
// The fences do not depend on each other. What a kernel, a container or another
// system does not have is left out, unless [Policy.Require] is set; [Probe] finds out
// by trying. A path's existence, size and times are no secret to any fence, for
// Landlock leaves stat alone. Which hosts a process connects to is not fenced.
package fence
