package main

import (
	"os"
	"time"
)

// betweenSignals is what two signals must be apart to be two. timeout(1), process groups
// and terminals send the same one twice within milliseconds, and nobody means to cancel runs
// by that.
const betweenSignals = time.Second

// eachSignal does one thing after the other, one for each signal that counts: the first, and
// each that comes betweenSignals or more after the one that counted before.
func eachSignal(signals <-chan os.Signal, do ...func()) {
	var last time.Time
	for range signals {
		if !last.IsZero() && time.Since(last) < betweenSignals {
			continue
		}
		last = time.Now()
		do[0]()
		if do = do[1:]; len(do) == 0 {
			return
		}
	}
}
