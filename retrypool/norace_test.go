//go:build !race

package retrypool_test

// raceEnabled says whether the race detector is on, which makes everything
// larger.
const raceEnabled = false
