//go:build !race

package chaos

// defaultSeeds is how many seeds are tested: with their 80 runs each, a little over 10,000.
const defaultSeeds = 130
