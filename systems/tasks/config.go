package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// config is what the environment says, and the times that it leaves open.
type config struct {
	limits   retryLimits   // of the policies that come with tasks
	interval time.Duration // of the retry loop
	poll     time.Duration // of the other loops
	lease    time.Duration // of a task whose on_start is called: two thirds of it may pass without the database
	hookTime time.Duration // within which a webhook must answer
	grace    time.Duration // for requests, when the service is to stop
}

// retryLimits are bounds of a [retryPolicy].
type retryLimits struct{ maxRetries, maxDelaySecs int32 }

// readConfig reads the environment.
func readConfig(getenv func(string) string) (config, error) {
	var errs []error
	read := func(name, value string) int32 {
		value = cmp.Or(getenv(name), value)
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("%s: %q: must be an integer from 1 to %d", name, value, math.MaxInt32))
		}
		return int32(n)
	}
	c := config{
		limits:   retryLimits{read("RETRY_MAX_RETRIES_LIMIT", "10"), read("RETRY_MAX_DELAY_LIMIT", "3600")},
		interval: time.Duration(read("RETRY_LOOP_INTERVAL_MS", "1000")) * time.Millisecond,
		poll:     time.Second,
		lease:    2 * time.Minute,
		hookTime: 15 * time.Second,
		grace:    10 * time.Second,
	}
	return c, errors.Join(errs...)
}
