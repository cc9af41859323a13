//go:build !race

package retry_test

// raceEnabled says whether the race detector is on, which makes everything
// slower.
const raceEnabled = false
