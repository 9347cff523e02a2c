//go:build !linux

package js

import "time"

var begun = time.Now()

// spent is the time that has passed.
func spent() time.Duration { return time.Since(begun) }
