//go:build !linux

package cgroup

import "syscall"

// Parent is the group that those of processes are made in.
type Parent struct{}

// Open returns [ErrUnsupported].
func Open(int) (*Parent, error) { return nil, ErrUnsupported }

// Check returns [ErrUnsupported].
func Check() error { return ErrUnsupported }

// New returns nil.
func (*Parent) New() (*Group, error) { return nil, nil }

// Group is one of processes.
type Group struct{}

// Join does nothing.
func (*Group) Join(*syscall.SysProcAttr) {}

// Limit does nothing.
func (*Group) Limit(float64) error { return nil }

// Exceeded returns false.
func (*Group) Exceeded() bool { return false }

// Remove does nothing.
func (*Group) Remove() error { return nil }
