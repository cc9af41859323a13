// Command quota simulates a backlog of jobs behind an API with a limit that nobody knows: 1,000
// jobs, four processes with 25 places each. Each job heeds the hint of its own refusal, or each
// process has a retry.Quota. It prints the table, or writes it into the page of its argument.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// scenarios are the limits of APIs, and what they say.
func scenarios() []scenario {
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
	return []scenario{
		{name: "50 in a window of 2 s, Retry-After", limit: usual, service: 50 * ms},
		{name: "25 in a window of 2 s", limit: fixedOf(always(quota / 2)), service: 50 * ms},
		{name: "the rest and the reset in every answer", limit: usual, tells: true, service: 50 * ms},
		{name: "no hint", limit: usual, blind: true, service: 50 * ms},
		{name: "a sliding window, Retry-After", limit: slide, service: 50 * ms},
		{name: "a sliding window, the rest in every answer", limit: slide, tells: true, service: 50 * ms},
		{name: "a sliding window, no hint", limit: slide, blind: true, service: 50 * ms},
		{name: "a bucket, Retry-After", limit: fill, service: 50 * ms},
		{name: "a bucket, no hint", limit: fill, blind: true, service: 50 * ms},
		{name: "50, and 25 from 12 s to 24 s", limit: changed(quota, quota/2), service: 50 * ms},
		{name: "25, and 50 from 12 s on", limit: raised(2), service: 50 * ms},
		{name: "6, and 50 from 12 s on", limit: raised(8), service: 50 * ms},
		{name: "who is refused 80 times in a window is banned for 10 s", service: 50 * ms, ideal: 38*time.Second + 50*ms, limit: func() limit {
			return &fixed{n: always(quota), window: window, ban: 80}
		}},
		{name: "the first refusal asks for a day", service: 50 * ms, limit: func() limit {
			return &once{limit: &fixed{n: always(quota), window: window}}
		}},
		{name: "two limits: 50 in 2 s, and 400 in 30 s", service: 50 * ms, limit: func() limit {
			return both{&fixed{n: always(quota), window: window}, &fixed{n: always(8 * quota), window: 15 * window}}
		}},
		{name: "tokens: a job takes 1 to 9 of 250 in 2 s", weights: true, service: 50 * ms, limit: fixedOf(always(5 * quota))},
		{name: "20 at once, Retry-After: 1", service: 500 * ms, ideal: jobs / 20 * 500 * ms, limit: func() limit {
			return &concurrent{n: 20}
		}},
	}
}

const seeds = 5

// A page has the table between these.
const before, after = "<!-- from benchmarks/quota -->\n", "<!-- end -->\n"

// splice puts the table into the text of the page.
func splice(text string) (string, bool) {
	head, rest, found := strings.Cut(text, before)
	_, tail, ended := strings.Cut(rest, after)
	return head + before + "\n" + table() + "\n" + after + tail, found && ended
}

// table is the table of the page: means of five seeds.
func table() string {
	var b strings.Builder
	b.WriteString("| 1,000 jobs, 4 processes × 25 places | alone: refused a job | time / ideal | with a `Quota` | time / ideal |\n")
	b.WriteString("|---|--:|--:|--:|--:|\n")
	for _, s := range scenarios() {
		alone, shared := mean(s, false), mean(s, true)
		fmt.Fprintf(&b, "| %s | %.1f | %.2f | **%.2f** | %.2f |\n", s.name, alone.refused, alone.time, shared.refused, shared.time)
	}
	return b.String()
}

func mean(s scenario, withQuota bool) (m result) {
	for seed := range uint64(seeds) {
		r := run(s, withQuota, seed)
		m.refused += r.refused / seeds
		m.time += r.time / seeds
	}
	return m
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stdout, table())
		return
	}
	err := update(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "quota:", err)
		os.Exit(1)
	}
}

// update writes the table into a page.
func update(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	now, ok := splice(string(text))
	if !ok {
		return fmt.Errorf("%s: has no place for the table", file)
	}
	return os.WriteFile(file, []byte(now), 0o600)
}
