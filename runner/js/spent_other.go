//go:build !linux

package js

import "time"

var started = time.Now()

// spent is the time that has passed.
func spent() time.Duration { return time.Since(started) }
