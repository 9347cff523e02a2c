//go:build race

package recorded

// raceEnabled is for tests that allocate a lot in one goroutine: the race
// detector has nothing to find there, and makes them thirty times as slow.
const raceEnabled = true
