package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// config is what the environment says, and how fast time goes by.
type config struct {
	limits   retry.Limits  // of the policies that come with tasks
	interval time.Duration // of the retry loop, and of the others
	second   time.Duration // how long a second of the tasks lasts: less in demonstrations and tests
	lease    time.Duration // within which a claimed task must be running
}

// readConfig reads the environment.
func readConfig(getenv func(string) string, second time.Duration) (config, error) {
	var errs []error
	read := func(name, value string) int {
		value = cmp.Or(getenv(name), value)
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > math.MaxInt32 {
			errs = append(errs, fmt.Errorf("%s: %q: must be an integer from 1 to %d", name, value, math.MaxInt32))
		}
		return n
	}
	if second <= 0 {
		errs = append(errs, fmt.Errorf("-second: %v: must be positive", second))
	}
	c := config{
		limits: retry.Limits{
			MaxAttempts: read("RETRY_MAX_RETRIES_LIMIT", "10") + 1, // with the first
			MaxDelay:    time.Duration(read("RETRY_MAX_DELAY_LIMIT", "3600")) * time.Second,
		},
		interval: time.Duration(read("RETRY_LOOP_INTERVAL_MS", "1000")) * second / 1000,
		second:   second,
		lease:    30 * time.Second,
	}
	return c, errors.Join(errs...)
}
