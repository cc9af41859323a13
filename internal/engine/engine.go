// Package engine has what the adapters to engines share.
package engine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
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

// The names under which a copied message has its job, and a dead letter its end.
const (
	StateKey = "retry-state"
	LostKey  = "retry-lost"  // 1 if there is an attempt that the State does not have
	DueKey   = "retry-due"   // in milliseconds of Unix time
	ErrorKey = "retry-error" // why the job was given up
)

// MaxError is how much of an error's text an engine keeps, if it has room for so much.
const MaxError = 8 << 10

// Load reads what a copied message has of its job, and when it is due. The error says that
// somebody has changed it.
func Load(get func(name string) string, job *retryjob.Stored) (due time.Time, err error) {
	number := func(name string) (n int64) {
		if text := get(name); text != "" && err == nil {
			if n, err = strconv.ParseInt(text, 10, 64); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		return n
	}
	job.Lost = int(min(max(number(LostKey), 0), 1))
	due = time.UnixMilli(number(DueKey))
	if bad := job.State.UnmarshalText([]byte(get(StateKey))); bad != nil {
		err = cmp.Or(err, fmt.Errorf("%s: %w", StateKey, bad))
	}
	return due, err
}

// Save writes what Load reads. No due time means that the job is due.
func Save(set func(name, value string), job *retryjob.Stored, due time.Time) error {
	text, err := job.State.MarshalText()
	set(StateKey, string(text))
	set(DueKey, strconv.FormatInt(Milli(due), 10))
	if job.Lost > 0 {
		set(LostKey, strconv.Itoa(job.Lost))
	}
	return err
}

// Take takes what Save has written, and the fields with other names, out of a message, and
// returns them. A function that publishes what it sees of the message begins anew.
func Take(fields map[string]string, others ...string) map[string]string {
	taken := map[string]string{}
	for _, name := range append([]string{StateKey, LostKey, DueKey}, others...) {
		if value, ok := fields[name]; ok {
			taken[name] = value
			delete(fields, name)
		}
	}
	return taken
}
