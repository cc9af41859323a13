package retry

import (
	"context"
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

// Event is one event of a call, for an [Observer]. A call makes a Retrying event before every wait
// and one Succeeded or GaveUp event at its end, which may follow Retrying without an attempt between
// them. Held comes before the other event of the attempt, and once for each hold, whatever the number
// of calls. After Verdict.Progress, Attempt and Elapsed have begun again.
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

// Observer is told about calls, for logs, metrics and traces. A function that is nil is not called.
// They must be safe for concurrent use where the Policy is shared, and must not block. A panic in
// Event or Attempt passes through the call.
type Observer struct {
	// Event is told the events of calls. It runs on the goroutine of the call, with its context
	// and without locks: it may use the policy.
	Event func(ctx context.Context, e Event)

	// Attempt is called before attempt n begins, with the context of the call. It returns a
	// child of ctx: the context of the attempt, or its parent if there is a timeout; nil
	// means ctx. The returned function, which may be nil, is called when the attempt ends,
	// with its error: nil after a success, [ErrLost] after an attempt without an outcome, such
	// as a panic. The event about the attempt comes after that.
	Attempt func(ctx context.Context, n int) (attempt context.Context, ended func(err error))

	// Wait is called with the name of the policy when a wait for a next attempt begins in this
	// process, but not if the State of the operation is stored. The returned function, which may
	// be nil, is called when the wait is over: its time has come, its context has ended, or a
	// pool has handed the task back. Both may run under a lock, and must not panic.
	Wait func(policy string) (over func())
}

// Observers returns an Observer that calls the functions of os in order. The functions for the
// ends of attempts and waits are called in reverse order. Nil Observers are skipped;
// if there is no function, the result is nil.
func Observers(os ...*Observer) *Observer {
	all := &Observer{}
	for _, o := range os {
		if o != nil {
			all.add(*o)
		}
	}
	if all.Event == nil && all.Attempt == nil && all.Wait == nil {
		return nil
	}
	return all
}

// add makes o call its own functions and then those of p.
func (o *Observer) add(p Observer) {
	first := *o
	switch {
	case first.Event == nil:
		o.Event = p.Event
	case p.Event != nil:
		o.Event = func(ctx context.Context, e Event) {
			first.Event(ctx, e)
			p.Event(ctx, e)
		}
	}
	switch {
	case first.Attempt == nil:
		o.Attempt = p.Attempt
	case p.Attempt != nil:
		o.Attempt = func(ctx context.Context, n int) (context.Context, func(error)) {
			outer, ended := first.attempt(ctx, n)
			inner, over := p.attempt(outer, n)
			return inner, func(err error) {
				over(err)
				ended(err)
			}
		}
	}
	switch {
	case first.Wait == nil:
		o.Wait = p.Wait
	case p.Wait != nil:
		o.Wait = func(policy string) func() {
			ended, over := first.Wait(policy), p.Wait(policy)
			return func() {
				for _, end := range []func(){over, ended} {
					if end != nil {
						end()
					}
				}
			}
		}
	}
}

// attempt is Attempt with the defaults in place of nil.
func (o *Observer) attempt(ctx context.Context, n int) (context.Context, func(error)) {
	child, ended := o.Attempt(ctx, n)
	if child == nil {
		child = ctx
	}
	if ended == nil {
		ended = func(error) {}
	}
	return child, ended
}

// waits tells the Observer of p that a wait begins, and returns how to tell its end, or nil.
func (p *Policy) waits() (over func()) {
	if o := p.orZero().Observer; o != nil && o.Wait != nil {
		return o.Wait(p.Name)
	}
	return nil
}
