//go:build !race

package recorded

const raceEnabled = false
