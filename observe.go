package retry

import (
	"context"
	"time"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	Retrying  EventKind = iota + 1 // an attempt failed, and another one follows after Delay
	Succeeded                      // the call succeeded
	GaveUp                         // the call failed
)

var eventNames = names[EventKind]{"none", "retrying", "succeeded", "gave_up"}

// String returns "retrying", "succeeded" or "gave_up".
func (k EventKind) String() string { return eventNames.of(k) }

// Event is what an [Observer] is told. A call makes a Retrying event before
// every wait and one Succeeded or GaveUp event at its end. If the context ends
// during a wait, GaveUp follows on Retrying without an attempt between them.
type Event struct {
	Kind    EventKind
	Policy  string        // the name of the policy
	Attempt int           // calls of the operation so far; 0 if the context was done before the first
	Delay   time.Duration // Retrying: the wait that follows
	Verdict Verdict       // of the last failure; zero on success and where the context ended the call
	Stop    StopReason    // GaveUp: why
	Err     error         // Retrying: the failure. GaveUp: what the call returns
	Elapsed time.Duration // since the start of the first attempt
}

// Observer is told what calls do, for logs and metrics. Observe runs on the
// goroutine of the call, with its context and without locks: it may use the
// policy, and must not block. A panic in it passes through the call.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function that is an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Observers returns an Observer that tells several in order. Nil ones are left
// out.
func Observers(os ...Observer) Observer {
	return ObserverFunc(func(ctx context.Context, e Event) {
		for _, o := range os {
			if o != nil {
				o.Observe(ctx, e)
			}
		}
	})
}
