//go:build !unix

package runner

const atOnce = 0
