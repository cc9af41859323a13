package backlog

import "time"

// answer is what an API says to a request.
type answer struct {
	ok    bool
	after time.Duration // a refusal: when to come back; 0 if it does not say
	empty time.Duration // a success: nothing is left for so long; 0 if something is
}

// limit is an API that takes so many requests, weights included, in a window.
type limit interface {
	// ask is a request at an instant, which takes so much of the limit.
	ask(now time.Duration, weight int) answer
	// leave ends a request that was taken.
	leave()
}

// fixed counts in windows that begin at multiples of their length.
type fixed struct {
	n      func(now time.Duration) int // of the window that begins then
	window time.Duration

	began      time.Duration
	used       int
	ban        int // refusals in a window after which nothing is taken for ten seconds
	refused    int
	bannedTill time.Duration
}

func always(n int) func(time.Duration) int { return func(time.Duration) int { return n } }

func (f *fixed) ask(now time.Duration, weight int) answer {
	if began := now.Truncate(f.window); began != f.began {
		f.began, f.used, f.refused = began, 0, 0
	}
	left := f.began + f.window - now
	if now < f.bannedTill {
		return answer{after: f.bannedTill - now}
	}
	n := f.n(f.began)
	if f.used+weight > n {
		if f.refused++; f.refused == f.ban {
			f.bannedTill = now + 10*time.Second
		}
		return answer{after: left}
	}
	a := answer{ok: true}
	if f.used += weight; f.used == n {
		a.empty = left
	}
	return a
}

func (*fixed) leave() {}

// sliding counts what came within the last window.
type sliding struct {
	n      int
	window time.Duration
	taken  []time.Duration
}

func (s *sliding) ask(now time.Duration, _ int) answer {
	for len(s.taken) > 0 && s.taken[0] <= now-s.window {
		s.taken = s.taken[1:]
	}
	if len(s.taken) >= s.n {
		return answer{after: s.taken[0] + s.window - now}
	}
	s.taken = append(s.taken, now)
	a := answer{ok: true}
	if len(s.taken) == s.n {
		a.empty = s.taken[0] + s.window - now
	}
	return a
}

func (*sliding) leave() {}

// bucket is filled with n tokens in a window, and holds a fifth of them.
type bucket struct {
	n      int
	window time.Duration
	tokens float64
	at     time.Duration
}

func newBucket(n int, window time.Duration) *bucket {
	return &bucket{n: n, window: window, tokens: float64(n) / 5}
}

func (b *bucket) ask(now time.Duration, _ int) answer {
	rate := float64(b.n) / b.window.Seconds()
	b.tokens = min(b.tokens+(now-b.at).Seconds()*rate, float64(b.n)/5)
	b.at = now
	if b.tokens < 1 {
		return answer{after: time.Duration((1 - b.tokens) / rate * float64(time.Second))}
	}
	b.tokens--
	a := answer{ok: true}
	if b.tokens < 1 {
		a.empty = time.Duration((1 - b.tokens) / rate * float64(time.Second))
	}
	return a
}

func (*bucket) leave() {}

// concurrent takes so many requests at once.
type concurrent struct{ n, busy int }

func (c *concurrent) ask(time.Duration, int) answer {
	if c.busy == c.n {
		return answer{after: time.Second}
	}
	c.busy++
	return answer{ok: true}
}

func (c *concurrent) leave() { c.busy-- }

// both has two limits.
type both struct{ a, b limit }

func (l both) ask(now time.Duration, weight int) answer {
	first := l.a.ask(now, weight)
	if !first.ok {
		return first
	}
	second := l.b.ask(now, weight)
	if second.ok {
		second.empty = max(first.empty, second.empty)
	}
	return second
}

func (both) leave() {}

// once makes the first refusal ask for a day.
type once struct {
	limit

	done bool
}

func (o *once) ask(now time.Duration, weight int) answer {
	a := o.limit.ask(now, weight)
	if !a.ok && !o.done {
		o.done, a.after = true, 24*time.Hour
	}
	return a
}
