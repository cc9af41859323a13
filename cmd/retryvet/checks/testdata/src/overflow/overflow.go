package overflow

import (
	"math"
	"time"
)

const limit = time.Minute

func shifted(attempt int) time.Duration {
	d := time.Second * (1 << attempt) // want `overflows before it is capped`
	if d > limit {
		d = limit
	}
	return d
}

func converted(base time.Duration, attempt uint) time.Duration {
	return min(base*time.Duration(1<<attempt), limit) // want `overflows before it is capped`
}

func numbers(attempt int) time.Duration {
	secs := 1 << uint(attempt) // want `overflows before it is capped`
	if secs > 60 {
		secs = 60
	}
	return time.Duration(secs) * time.Second
}

func powered(attempt int) time.Duration {
	d := time.Duration(math.Pow(2, float64(attempt))) * time.Second // want `overflows before it is capped`
	if d >= limit {
		return limit
	}
	return d
}

func inFunction(factor float64, base time.Duration) func(int) time.Duration {
	return func(attempt int) time.Duration {
		next := time.Duration(float64(base) * math.Pow(factor, float64(attempt))) // want `overflows before it is capped`
		if next > limit {
			return limit
		}
		return next
	}
}

func endless(call func() error) {
	for attempt := 0; ; attempt++ {
		if err := call(); err == nil {
			return
		}
		time.Sleep(time.Duration(math.Pow(2, float64(attempt))) * time.Millisecond) // want `grows without a bound`
	}
}

// What follows is in order.

func boundedExponent(attempt int) time.Duration {
	if attempt > 10 {
		attempt = 10
	}
	d := time.Second << attempt
	if d > limit {
		d = limit
	}
	return d
}

func boundedByMin(attempt int) time.Duration {
	return min(time.Second<<min(attempt, 10), limit)
}

func inFloat(attempt int) time.Duration {
	return time.Duration(math.Min(float64(limit), float64(time.Second)*math.Pow(2, float64(attempt))))
}

func comparedInFloat(attempt int) time.Duration {
	f := float64(time.Second) * math.Pow(2, float64(attempt))
	if f > float64(limit) {
		return limit
	}
	return time.Duration(f)
}

func finds(attempt int) time.Duration {
	d := time.Second << attempt
	if d <= 0 || d > limit {
		d = limit
	}
	return d
}

func counted(max int, call func() error) (err error) {
	for i := 0; i < max; i++ {
		if err = call(); err == nil {
			return nil
		}
		d := time.Second << i
		if d > limit {
			d = limit
		}
		time.Sleep(d)
	}
	return err
}

func unexported(attempt int) time.Duration {
	d := time.Second << attempt
	if d > limit {
		d = limit
	}
	return d
}

func callsUnexported(max int, call func() error) {
	for attempt := 0; attempt < max; attempt++ {
		if call() == nil {
			return
		}
		time.Sleep(unexported(attempt))
	}
}

func halved(d time.Duration) time.Duration {
	return time.Duration(float64(d) * math.Pow(0.5, float64(d)))
}

func mask(bit uint) int {
	m := 1 << bit
	if m > 64 {
		return 0
	}
	return m
}

type candidate struct{ attempts int }

func (c *candidate) backoff() time.Duration {
	d := time.Second << c.attempts
	if d > limit {
		d = limit
	}
	return d
}

func (c *candidate) again(most int) bool {
	c.attempts++
	return c.attempts < most
}

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

// The low bits of a count are few.
func bucket(n int) time.Duration { return min(time.Duration(1<<(n&7))*time.Second, time.Minute) }

func cycle(n int) time.Duration {
	i := n % 10
	return min(time.Duration(1<<i)*time.Second, time.Minute)
}

type growing struct{ n int }

// The count goes no further when the limit is reached.
func (g *growing) next() time.Duration {
	d := time.Second << g.n
	if d < time.Minute {
		g.n++
	} else {
		d = time.Minute
	}
	return d
}

func (g *growing) nextOf(failed bool) time.Duration {
	d := time.Second << g.n // want `overflows before it is capped`
	if d < time.Minute {
		g.n++
	} else {
		d = time.Minute
	}
	if failed {
		g.n++
	}
	return d
}

// The count is one of a range.
func ranged(attempts int, send func() error) (err error) {
	for i := range attempts {
		d := time.Duration(math.Pow(3, float64(i))) * time.Second
		if d > time.Minute {
			d = time.Minute
		}
		time.Sleep(d)
		if err = send(); err == nil {
			return nil
		}
	}
	return err
}

type bounds struct{ min, max time.Duration }

// A result below the first delay is seen.
func (b bounds) delay(attempt int) time.Duration {
	d := time.Duration(float64(b.min) * math.Pow(2, float64(attempt)))
	if d > b.max {
		return b.max
	}
	if d < b.min {
		return b.min
	}
	return d
}

// The loop ends where the limit is passed.
func untilLimit(call func() error) error {
	n := 0
	for {
		err := call()
		if err == nil {
			return nil
		}
		seconds := int64(math.Pow(2, float64(n)))
		if seconds > 128 {
			return err
		}
		time.Sleep(time.Duration(seconds) * time.Second)
		n++
	}
}

// What is no number is compared too.
func ofKind(kind string, c complex128, n int) time.Duration {
	if kind == "none" || c == 0 {
		return 0
	}
	d := time.Duration(math.Pow(real(c), float64(n+len(kind))*imag(c))) * time.Second // want `overflows before it is capped`
	if d > time.Minute {
		d = time.Minute
	}
	return d
}
