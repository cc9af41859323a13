// Package engine has what the adapters to engines share.
package engine

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// Text returns the beginning of a text, of that many bytes at most, in valid UTF-8.
func Text(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Ceil returns d + unit - 1ns, for engines that truncate times to a unit: they are then never
// early. A d of less than 0 is 0.
func Ceil(d, unit time.Duration) time.Duration { return sat.Add(max(d, 0), unit-1) }

// Milli returns a time in milliseconds of Unix time, rounded up: what is due then is never early.
func Milli(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// Wait returns after a time, or when ctx is done.
func Wait(ctx context.Context, t time.Duration) {
	if t <= 0 {
		return
	}
	select {
	case <-time.After(t):
	case <-ctx.Done():
	}
}

// Tell tells the Observer of a job in an engine that has no place for errors beside jobs.
func Tell(ctx context.Context, job *retry.Stored) {
	if err := job.Tell(ctx); err != nil {
		slog.ErrorContext(ctx, "retry", "error", err)
	}
}

// End ends a job for a reason of its adapter, or one that Attempt has given already.
func End(job *retry.Stored, reason error) { job.Decision.Retry, job.Decision.Err = false, reason }

// NoPolicy reports whether an outcome is Refused because the job has no policy. If it is Refused
// because its attempt could not start, its State has changed.
func NoPolicy(outcome retry.Outcome, job *retry.Stored) bool {
	return outcome == retry.Refused && job.Decision.Verdict == (retry.Verdict{})
}
