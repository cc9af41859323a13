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
