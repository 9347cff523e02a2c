package js

import (
	"syscall"
	"time"
)

// ofThread is RUSAGE_THREAD, which the standard library does not name.
const ofThread = 1

// spent is the time that this thread has had of the processor: a machine that is busy does not count.
func spent() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(ofThread, &used) // cannot fail
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
