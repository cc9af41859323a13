package retryslog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryslog"
)

// TestStorm has ten failures a second for two minutes, and then some later.
func TestStorm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := retryslog.New(logger(&out), &retryslog.Options{Interval: time.Minute})
		fail := retry.Event{
			Kind: retry.Retrying, Attempt: 1, Err: errors.New("boom"),
			Verdict: retry.Verdict{Class: retry.Retryable, Category: "timeout"},
		}
		for range 1201 {
			o.Observe(t.Context(), fail)
			time.Sleep(100 * time.Millisecond)
		}
		for range 5 {
			o.Observe(t.Context(), fail)
		}
		time.Sleep(time.Hour)
		o.Observe(t.Context(), fail)
		time.Sleep(time.Hour)
		o.Observe(t.Context(), fail)
		const line = "level=WARN msg=retrying attempt=1 delay=0s class=retryable category=timeout elapsed=0s error=boom"
		assert.Equal(t, []string{line, line + " suppressed=599", line + " suppressed=599", line + " suppressed=5", line}, lines(&out))
	})
}

// TestStormKinds has lines that say different things: none holds back another.
func TestStormKinds(t *testing.T) {
	t.Parallel()
	a := retry.Event{Kind: retry.Retrying, Policy: "a", Attempt: 1, Verdict: retry.Verdict{Class: retry.Retryable, Category: "x"}}
	b, c, d, e, f := a, a, a, a, a
	b.Policy = "b"
	c.Verdict.Category = "y"
	d.Verdict.Class = retry.RateLimited
	e.Kind, e.Stop = retry.GaveUp, retry.StopAttempts
	f.Kind, f.Stop = retry.GaveUp, retry.StopBudget
	var out bytes.Buffer
	o := retryslog.New(logger(&out), &retryslog.Options{Interval: time.Hour, Succeeded: slog.LevelInfo})
	for range 3 {
		for _, e := range []retry.Event{a, b, c, d, e, f, {Kind: retry.Succeeded, Attempt: 1}, {Kind: retry.Succeeded, Attempt: 2}} {
			e.Elapsed++ // of no account
			o.Observe(t.Context(), e)
		}
	}
	assert.Len(t, lines(&out), 8)
}

// TestStormCategories has a server that makes up categories.
func TestStormCategories(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := retryslog.New(logger(&out), &retryslog.Options{Interval: time.Hour})
	for n := range 100_000 {
		o.Observe(t.Context(), retry.Event{
			Kind: retry.Retrying, Attempt: 1, Verdict: retry.Verdict{Class: retry.Retryable, Category: fmt.Sprint("made_up_", n)},
		})
	}
	assert.Len(t, lines(&out), 1001)
}

// TestStormFirstLine has a policy that has never failed before. Its first line is there, even if
// lines of a thousand kinds of other policies have been left out.
func TestStormFirstLine(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			o := retryslog.New(logger(&out), &retryslog.Options{Interval: time.Minute})
			for n := range 1000 {
				for range lines {
					o.Observe(t.Context(), retry.Event{Kind: retry.GaveUp, Policy: "search", Verdict: retry.Verdict{Category: fmt.Sprint(n)}})
				}
				time.Sleep(time.Hour)
			}
			o.Observe(t.Context(), retry.Event{Kind: retry.GaveUp, Policy: "payments", Verdict: retry.Verdict{Category: "new"}})
			time.Sleep(time.Second)
			o.Observe(t.Context(), retry.Event{Kind: retry.GaveUp, Policy: "login", Verdict: retry.Verdict{Category: "new"}})
			assert.Contains(t, out.String(), "policy=payments")
			assert.Contains(t, out.String(), "policy=login")
		})
	}
}

// TestStormOff has no Interval: every line is logged.
func TestStormOff(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{0, -1} {
		var out bytes.Buffer
		o := retryslog.New(logger(&out), &retryslog.Options{Interval: interval})
		for range 10 {
			o.Observe(t.Context(), retry.Event{Kind: retry.Retrying, Attempt: 1})
		}
		assert.Len(t, lines(&out), 10)
	}
}

// TestStormLevels has lines that no handler wants: they neither count nor hold back.
func TestStormLevels(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	level := &slog.LevelVar{}
	level.Set(slog.LevelError)
	o := retryslog.New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})), &retryslog.Options{Interval: time.Hour})
	o.Observe(t.Context(), retry.Event{Kind: retry.Retrying, Attempt: 1})
	level.Set(slog.LevelDebug)
	o.Observe(t.Context(), retry.Event{Kind: retry.Retrying, Attempt: 1})
	assert.Len(t, lines(&out), 1)
	assert.NotContains(t, out.String(), "suppressed")
}

// TestStormShared has an Observer in use by many goroutines: each line is logged or
// counted.
func TestStormShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := retryslog.New(logger(&out), &retryslog.Options{Interval: time.Second})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range 100 {
					o.Observe(context.Background(), retry.Event{Kind: retry.Retrying, Attempt: 1})
					time.Sleep(30 * time.Millisecond)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		o.Observe(context.Background(), retry.Event{Kind: retry.Retrying, Attempt: 1})
		total := 0
		for _, line := range lines(&out) {
			n := 0
			if _, count, ok := strings.Cut(line, "suppressed="); ok {
				_, err := fmt.Sscan(count, &n)
				assert.NoError(t, err)
			}
			total += 1 + n
		}
		assert.Equal(t, 1001, total)
	})
}

// BenchmarkStorm has lines that are left out.
func BenchmarkStorm(b *testing.B) {
	o := retryslog.New(slog.New(slog.NewTextHandler(io.Discard, nil)), &retryslog.Options{Interval: time.Hour})
	e := retry.Event{Kind: retry.Retrying, Attempt: 1, Err: errors.New("boom")}
	b.ReportAllocs()
	for b.Loop() {
		o.Observe(b.Context(), e)
	}
}
