// Package engine has what the adapters to engines share.
package engine

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/redact"
	"github.com/seed-5ff3c98e/retry/internal/sat"
	"github.com/seed-5ff3c98e/retry/internal/stack"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// Text returns the beginning of a text without secrets, of that many bytes at most, in valid
// UTF-8: dead letters are read by many.
func Text(text string, most int) string {
	text = redact.Text(text[:min(len(text), most)]) // which a secret that was cut does not pass either
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
func Tell(ctx context.Context, job *retryjob.Stored) {
	if err := job.Tell(ctx); err != nil {
		Report(ctx, nil, err)
	}
}

// Report tells onError of an error, or the default logger if onError is nil.
func Report(ctx context.Context, onError func(context.Context, error), err error) {
	if onError != nil {
		onError(ctx, err)
		return
	}
	slog.ErrorContext(ctx, "retry", "error", err)
}

// Guard calls fn, which is the program's, and returns its panic as an error. in says what it is.
func Guard(in string, fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &retry.PanicError{Value: v, Stack: stack.OfPanic(), In: in}
		}
	}()
	return fn()
}

// Attempt makes the attempt on a goroutine that the function may end. There is then no outcome,
// which is 0: the attempt is lost.
func Attempt(ctx context.Context, job *retryjob.Stored, fn func(context.Context) error) (outcome retryjob.Outcome) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		outcome = job.Attempt(ctx, fn)
	}()
	<-over
	return outcome
}
