//go:build !race

package testkit

// Race says whether the race detector is on, which makes everything
// slower.
const Race = false
