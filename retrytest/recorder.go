package retrytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Recorder keeps all events of the policies with its [Recorder.Observer]. The zero value is ready;
// a Recorder must not be copied after its first use. It is safe for concurrent
// use, but events of concurrent calls are mixed: give each call a Recorder of
// its own.
type Recorder struct {
	mu     sync.Mutex
	events []retry.Event
}

// Observer returns the Observer of the policies whose events are to be kept.
func (r *Recorder) Observer() *retry.Observer {
	return &retry.Observer{Event: func(_ context.Context, e retry.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}}
}

// Events returns all events so far.
func (r *Recorder) Events() []retry.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Timeline returns one line for every event so far, which begins with the number
// of the attempt:
//
//	1: boom: retry in 2s
//	2: succeeded
//
// A Quota that holds all calls is told as "1: too many: all are held for 30s".
//
// A call that fails ends with a line of one of these forms, where the word in
// parentheses is the [retry.StopReason]. The error is the last error of the
// operation, without the *retry.Error around it.
//
//	3: gave up (attempts): boom
//	0: gave up (canceled)
//
// A line break in the text of an error is shown as "; ".
func (r *Recorder) Timeline() []string {
	events := r.Events()
	lines := make([]string, len(events))
	for i, e := range events {
		lines[i] = line(e)
	}
	return lines
}

func line(e retry.Event) string {
	switch e.Kind {
	case retry.Retrying:
		return fmt.Sprintf("%d: %s: retry in %v", e.Attempt, text(e.Err), e.Delay)
	case retry.Succeeded:
		return fmt.Sprintf("%d: succeeded", e.Attempt)
	case retry.GaveUp:
		gaveUp := fmt.Sprintf("%d: gave up (%v)", e.Attempt, e.Stop)
		if err := failure(e); err != nil {
			gaveUp += ": " + text(err)
		}
		return gaveUp
	case retry.Held:
		return fmt.Sprintf("%d: %s: all are held for %v", e.Attempt, text(e.Err), e.Delay)
	default:
		return fmt.Sprintf("%d: %v", e.Attempt, e.Kind)
	}
}

// failure returns the last error of the operation in an event.
func failure(e retry.Event) error {
	var wrapped *retry.Error
	if e.Stop != retry.StopFinal && errors.As(e.Err, &wrapped) {
		return wrapped.Err
	}
	return e.Err
}

// text returns the text of err in one line, by way of fmt because that survives
// an Error method that panics.
func text(err error) string {
	return strings.ReplaceAll(fmt.Sprint(err), "\n", "; ")
}

// Waits returns the waits before all retries so far, as announced by the
// events. An immediate retry has a wait of 0.
func (r *Recorder) Waits() []time.Duration {
	var waits []time.Duration
	for _, e := range r.Events() {
		if e.Kind == retry.Retrying {
			waits = append(waits, e.Delay)
		}
	}
	return waits
}

// Expect fails the test if [Recorder.Timeline] is not want. The test continues.
func (r *Recorder) Expect(t testing.TB, want ...string) {
	t.Helper()
	compare(t, "timeline", r.Timeline(), want)
}

// ExpectWaits fails the test if [Recorder.Waits] is not want. The test
// continues.
func (r *Recorder) ExpectWaits(t testing.TB, want ...time.Duration) {
	t.Helper()
	compare(t, "waits", texts(r.Waits()), texts(want))
}

func texts(ds []time.Duration) []string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return lines
}

// compare fails the test if two lists differ, and shows them line by line.
func compare(t testing.TB, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	var b strings.Builder
	for i := range max(len(got), len(want)) {
		if i < len(got) && i < len(want) && got[i] == want[i] {
			b.WriteString("\n      " + got[i])
			continue
		}
		if i < len(want) {
			b.WriteString("\n    - " + want[i])
		}
		if i < len(got) {
			b.WriteString("\n    + " + got[i])
		}
	}
	t.Errorf("retrytest: wrong %s (- want, + got):%s", what, b.String())
}
