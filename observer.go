package retry

import (
	"context"
	"slices"
	"time"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	Retrying  EventKind = iota + 1 // an attempt failed or found nothing yet, and another one follows after Delay
	Succeeded                      // the call succeeded
	GaveUp                         // the call failed
	Held                           // the Quota holds all calls for Delay: the attempt was the first to be refused
)

var eventNames = names[EventKind]{"none", "retrying", "succeeded", "gave_up", "held"}

// String returns "retrying", "succeeded", "gave_up" or "held".
func (k EventKind) String() string { return eventNames.of(k) }

// Event is one event of a call, for an [Observer]. A call makes a Retrying
// event before every wait and one Succeeded or GaveUp event at its end. If the
// context ends during a wait, GaveUp follows Retrying without an attempt
// between them. Held comes before the other event of the attempt, and once for each hold of a
// [Quota], whatever the number of calls. If the failed attempt had made progress,
// Verdict.Progress says so: Attempt and Elapsed have begun again with it.
type Event struct {
	Kind    EventKind
	Policy  string        // the name of the policy
	Attempt int           // calls of the operation so far, since it last made progress; 0 if the context was done before the first
	Delay   time.Duration // Retrying: the wait that follows. Held: how long the hold is
	Verdict Verdict       // of the last failure; zero on success and where the context ended the call
	Stop    StopReason    // GaveUp: why
	Err     error         // Retrying, Held: the failure. GaveUp: the error of the call
	Elapsed time.Duration // since State.First: the start of the first attempt, or the last progress
}

// Observer is told the events of calls, for logs and metrics. Observe runs on
// the goroutine of the call, with its context and without locks: it may use the
// policy, and must not block. A panic in it passes through the call.
//
// An Observer that is an [AttemptObserver] or a [WaitObserver] too sees attempts or waits.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// AttemptObserver is an [Observer] that sees attempts.
type AttemptObserver interface {
	Observer
	// Attempt is called before attempt n begins, with the context of the call. It returns a
	// child of ctx: the context of the attempt, or its parent if there is a timeout; nil
	// means ctx. The returned function, which may be nil, is called when the attempt ends,
	// with its error: nil after a success, [ErrLost] after an attempt without an outcome, such
	// as a panic. The event about the attempt comes after that.
	Attempt(ctx context.Context, n int) (attempt context.Context, ended func(err error))
}

// WaitObserver is an [Observer] that sees the waits for a next attempt in this process. It
// does not see the waits of operations whose State is stored: another process may continue
// them.
type WaitObserver interface {
	Observer
	// Wait is called with the name of the policy when a wait begins. The returned function,
	// which may be nil, is called when the wait is over: its time has come, its context has
	// ended, or a pool has handed the task back. Both functions may run under a lock, and must
	// neither block nor panic.
	Wait(policy string) (over func())
}

// ObserverFunc is a function that is an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Observers returns an Observer that calls os in order, including their Attempt and Wait
// methods. The functions for the ends of attempts and waits are called in reverse order.
// Nil Observers are skipped.
func Observers(os ...Observer) Observer {
	all := slices.DeleteFunc(append([]Observer{}, os...), func(o Observer) bool { return o == nil })
	for _, o := range all {
		if _, ok := o.(AttemptObserver); ok {
			return attemptObservers{all}
		}
	}
	return observers(all)
}

type observers []Observer

// Observe implements [Observer].
func (os observers) Observe(ctx context.Context, e Event) {
	for _, o := range os {
		o.Observe(ctx, e)
	}
}

// Wait implements [WaitObserver].
func (os observers) Wait(policy string) func() {
	var ends []func()
	for _, o := range os {
		if w, ok := o.(WaitObserver); ok {
			if over := w.Wait(policy); over != nil {
				ends = append(ends, over)
			}
		}
	}
	if ends == nil {
		return nil
	}
	return func() {
		for _, over := range slices.Backward(ends) {
			over()
		}
	}
}

// attemptObservers are observers of which at least one has an Attempt method.
type attemptObservers struct{ observers }

// Attempt implements [AttemptObserver].
func (os attemptObservers) Attempt(ctx context.Context, n int) (context.Context, func(error)) {
	var ends []func(error)
	for _, o := range os.observers {
		seer, ok := o.(AttemptObserver)
		if !ok {
			continue
		}
		child, end := seer.Attempt(ctx, n)
		if child != nil {
			ctx = child //nolint:fatcontext // spans are to be nested
		}
		if end != nil {
			ends = append(ends, end)
		}
	}
	return ctx, func(err error) {
		for _, end := range slices.Backward(ends) {
			end(err)
		}
	}
}
