// Package cgroup has the kernel keep processes to an amount of memory, by control groups (version 2)
// of Linux: what is beyond it is killed, and nothing else.
//
// [Open] makes the group of this process one that others can be made in. A group with processes
// can have no limits for groups in it, so it first moves all that are in it, this process among
// them, into a leaf. What this process starts elsewhere stays with it in the leaf.
//
// It needs a group that it may write and that has the controller of memory: one that was delegated to it.
// Elsewhere [Open] says what is missing, and changes nothing.
//
// The methods of a nil [Parent] and a nil [Group] do nothing: there are no groups then. All are used
// concurrently.
package cgroup
