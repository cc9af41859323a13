package scene

import (
	"math/rand/v2"
	"time"
)

// Hint is what a server says about the time that is left.
type Hint func(left time.Duration, r *rand.Rand) time.Duration

// Exact says how long it is.
func Exact(left time.Duration, _ *rand.Rand) time.Duration { return left }

// Seconds rounds up, as Retry-After does.
func Seconds(left time.Duration, _ *rand.Rand) time.Duration {
	return (left + time.Second - 1).Truncate(time.Second)
}

// Blind says nothing.
func Blind(time.Duration, *rand.Rand) time.Duration { return 0 }

// Always says the same.
func Always(d time.Duration) Hint { return func(time.Duration, *rand.Rand) time.Duration { return d } }

// Rough is wrong by 30 %.
func Rough(left time.Duration, r *rand.Rand) time.Duration {
	return time.Duration(float64(left) * (0.7 + 0.6*r.Float64()))
}

// Window takes n in each window.
func Window(n int, length time.Duration, hint Hint) func(*rand.Rand) Server {
	return Changing(func(time.Duration) int { return n }, length, hint)
}

// Changing takes so many in the window that begins then.
func Changing(n func(began time.Duration) int, length time.Duration, hint Hint) func(*rand.Rand) Server {
	return func(r *rand.Rand) Server {
		began, used := -length, 0
		return func(now time.Duration, cost int) Answer {
			if b := now.Truncate(length); b != began {
				began, used = b, 0
			}
			left := began + length - now
			if used+cost > n(began) {
				return Answer{Left: left, After: hint(left, r)}
			}
			used += cost
			return Answer{OK: true}
		}
	}
}

// Sliding takes n in the last length.
func Sliding(n int, length time.Duration, hint Hint) func(*rand.Rand) Server {
	return func(r *rand.Rand) Server {
		var taken []time.Duration
		return func(now time.Duration, _ int) Answer {
			for len(taken) > 0 && taken[0] <= now-length {
				taken = taken[1:]
			}
			if len(taken) >= n {
				left := taken[0] + length - now
				return Answer{Left: left, After: hint(left, r)}
			}
			taken = append(taken, now)
			return Answer{OK: true}
		}
	}
}

// Bucket takes one each gap, and burst at once. If spent is set, each success that empties it says so.
func Bucket(gap time.Duration, burst int, hint Hint, spent bool) func(*rand.Rand) Server {
	return func(r *rand.Rand) Server {
		var full time.Duration // when the bucket is full
		return func(now time.Duration, cost int) Answer {
			t := max(full, now) + time.Duration(cost)*gap
			if left := t - now - time.Duration(burst)*gap; left > 0 {
				return Answer{Left: left, After: hint(left, r)}
			}
			full = t
			a := Answer{OK: true}
			if left := t + gap - now - time.Duration(burst)*gap; spent && left > 0 {
				a.Spent = hint(left, r)
			}
			return a
		}
	}
}

// Unlimited refuses the requests of some instants only.
func Unlimited(refuse func(now time.Duration) (after time.Duration, refused bool)) func(*rand.Rand) Server {
	return func(*rand.Rand) Server {
		return func(now time.Duration, _ int) Answer {
			if refuse != nil {
				if after, no := refuse(now); no {
					return Answer{Left: time.Millisecond, After: after}
				}
			}
			return Answer{OK: true}
		}
	}
}

// Both has two limits.
func Both(a, b func(*rand.Rand) Server) func(*rand.Rand) Server {
	return func(r *rand.Rand) Server {
		first, second := a(r), b(r)
		return func(now time.Duration, cost int) Answer {
			if x := first(now, cost); !x.OK {
				return x
			}
			return second(now, cost)
		}
	}
}

// Outage refuses everything for a time.
func Outage(server func(*rand.Rand) Server, began, lasts, hint time.Duration) func(*rand.Rand) Server {
	return func(r *rand.Rand) Server {
		s := server(r)
		return func(now time.Duration, cost int) Answer {
			if now >= began && now < began+lasts {
				return Answer{Left: began + lasts - now, After: hint}
			}
			return s(now, cost)
		}
	}
}
