//go:build race

package retrypool_test

const raceEnabled = true
