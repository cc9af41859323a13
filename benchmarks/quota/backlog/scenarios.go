package backlog

import "time"

// Scenarios are the limits of APIs, and what they say.
func Scenarios() []Scenario {
	const ms = time.Millisecond
	fixedOf := func(n func(time.Duration) int) func() limit {
		return func() limit { return &fixed{n: n, window: window} }
	}
	usual := fixedOf(always(quota))
	changed := func(from, to int) func() limit {
		return fixedOf(func(began time.Duration) int {
			if began >= 6*window && began < 12*window {
				return to
			}
			return from
		})
	}
	raised := func(by int) func() limit {
		return fixedOf(func(began time.Duration) int {
			if began >= 6*window {
				return quota
			}
			return quota / by
		})
	}
	slide := func() limit { return &sliding{n: quota, window: window} }
	fill := func() limit { return newBucket(quota, window) }
	return []Scenario{
		{Name: "50 in a window of 2 s, Retry-After", limit: usual, service: 50 * ms},
		{Name: "25 in a window of 2 s", limit: fixedOf(always(quota / 2)), service: 50 * ms},
		{Name: "the rest and the reset in every answer", limit: usual, tells: true, service: 50 * ms},
		{Name: "no hint", limit: usual, blind: true, service: 50 * ms},
		{Name: "a sliding window, Retry-After", limit: slide, service: 50 * ms},
		{Name: "a sliding window, the rest in every answer", limit: slide, tells: true, service: 50 * ms},
		{Name: "a sliding window, no hint", limit: slide, blind: true, service: 50 * ms},
		{Name: "a bucket, Retry-After", limit: fill, service: 50 * ms},
		{Name: "a bucket, no hint", limit: fill, blind: true, service: 50 * ms},
		{Name: "50, and 25 from 12 s to 24 s", limit: changed(quota, quota/2), service: 50 * ms},
		{Name: "25, and 50 from 12 s on", limit: raised(2), service: 50 * ms},
		{Name: "6, and 50 from 12 s on", limit: raised(8), service: 50 * ms},
		{Name: "who is refused 80 times in a window is banned for 10 s", service: 50 * ms, ideal: 38*time.Second + 50*ms, limit: func() limit {
			return &fixed{n: always(quota), window: window, ban: 80}
		}},
		{Name: "the first refusal asks for a day", service: 50 * ms, limit: func() limit {
			return &once{limit: &fixed{n: always(quota), window: window}}
		}},
		{Name: "two limits: 50 in 2 s, and 400 in 30 s", service: 50 * ms, limit: func() limit {
			return both{&fixed{n: always(quota), window: window}, &fixed{n: always(8 * quota), window: 15 * window}}
		}},
		{Name: "tokens: a job takes 1 to 9 of 250 in 2 s", weights: true, service: 50 * ms, limit: fixedOf(always(5 * quota))},
		{Name: "20 at once, Retry-After: 1", service: 500 * ms, ideal: jobs / 20 * 500 * ms, limit: func() limit {
			return &concurrent{n: 20}
		}},
	}
}
