//go:build !unix

package main

import "os/exec"

// killGroup leaves it at the command itself: there are no groups.
func killGroup(*exec.Cmd) {}
