package overflow

import (
	"math"
	"time"
)

var delay = func(n int) time.Duration {
	d := time.Duration(math.Pow(2, float64(n))) * time.Second // want `overflows before it is capped`
	if d > time.Minute {
		d = time.Minute
	}
	return d
}

type options struct{ delay func(int) time.Duration }

var defaults = options{delay: func(n int) time.Duration {
	return min(time.Minute, time.Second<<n) // want `overflows before it is capped`
}}

// What follows is in order.

var bounded = func(n int) time.Duration {
	if n > 5 {
		return time.Minute
	}
	return min(time.Minute, time.Second<<n)
}

// The wait before has reached the limit long before the shift overflows.
func next(before time.Duration, n int) time.Duration {
	if before >= time.Minute {
		return time.Minute
	}
	d := 10 * time.Millisecond * (1 << n)
	return min(d, time.Minute)
}

// The base does not grow, so the shift overflows.
func fromBase(base time.Duration, n int) time.Duration {
	if base >= time.Minute {
		return time.Minute
	}
	return min(base<<n, time.Minute) // want `overflows before it is capped`
}

// A result below what it was computed from is an overflow.
func floored(base time.Duration, n int) time.Duration {
	d := base << n
	if d < base || d > time.Minute {
		return time.Minute
	}
	return d
}

func notFloored(base, least time.Duration, n int) time.Duration {
	d := base << n // want `overflows before it is capped`
	if d < least || d > time.Minute {
		return time.Minute
	}
	return d
}

// What the exponent is computed from is bounded.
func derived(n, most int) time.Duration {
	if n > most {
		return -1
	}
	exponent := uint(0)
	if before := n - 1; before >= 0 {
		exponent = uint(before)
	}
	d := time.Duration(1<<exponent) * time.Second
	if d > time.Minute {
		return time.Minute
	}
	return d
}

// A caller of the caller bounds it.
func pausing(send func() error, most int) {
	for attempt := 0; attempt < most; attempt++ {
		if send() == nil {
			return
		}
		pause(attempt)
	}
}

func pause(attempt int) { time.Sleep(pauseOf(attempt)) }

func pauseOf(attempt int) time.Duration { return min(time.Second*(1<<attempt), time.Minute) }

const lastAttempt = 5

func untilLast(send func() error) error {
	for attempt := 0; ; attempt++ {
		err := send()
		if err == nil || attempt == lastAttempt {
			return err
		}
		time.Sleep(min(time.Second<<attempt, time.Minute))
	}
}

func butTheFirst(send func() error) error {
	for attempt := 0; ; attempt++ {
		err := send()
		if err == nil {
			return nil
		}
		if attempt == 0 {
			return err
		}
		time.Sleep(min(time.Second<<attempt, time.Minute)) // want `overflows before it is capped`
	}
}
