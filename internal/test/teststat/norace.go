//go:build !race

package teststat

// Race says whether the race detector is on, which makes everything
// slower.
const Race = false
