//go:build race

package chaos

// defaultSeeds are fewer under the race detector, which takes five times as long: what it
// finds, it finds in any of them. The other tests of CI go through all.
const defaultSeeds = 40
