package retry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/show"
)

// Error reports that a call was given up for any reason but a Final error. A
// Final error is returned as it is.
//
// [errors.Is] and [errors.As] reach the last error of the operation and the context's cause.
// errors.Is also finds Stop, and [context.Canceled] or [context.DeadlineExceeded] with
// StopCanceled or StopDeadline: ask for these two to tell whether the caller's context ended. An
// Error may wrap two errors, so [errors.Unwrap] returns nil for it.
//
// docs/why.md explains every text that an Error can have, and what to set.
type Error struct {
	Policy     string        // the name of the policy
	Attempts   int           // calls of the operation since it last made progress, stored ones included; 0 if it was not started
	Waited     time.Duration // the sum of the waits between them; 0 from Next
	Stop       StopReason
	NotApplied bool          // every attempt certainly had no effect, so that a job with NonIdempotent may come again
	RetryAfter time.Duration // come back no sooner than this: the server's hint, or the wait that the Budget refused; 0 if unknown
	Err        error         // the last error of the operation that is not Cut; nil if it was not started
	Cut        error         // the error of the last attempt, if a limit or the context has cut it off and Err is of an earlier one
	Cause      error         // context.Cause, if the context is done
	State      State         // the failures so far, as in Decision.State; a Call with it goes on where this one ended
}

// Error returns the form "task failed after 3 attempts: connection refused", where task is
// the policy's name, or "task not started: context canceled". After the attempts, the stop
// reason follows in parentheses, unless it is StopAttempts or the text of Err has it.
// "; attempt 3 was cut off: " and Cut come last. The name is escaped; the text of Err stays.
func (e *Error) Error() string {
	if e == nil {
		return "<nil>"
	}
	var b strings.Builder
	if e.Policy != "" {
		b.WriteString(show.Name(e.Policy, mostName))
		b.WriteByte(' ')
	}
	reason, last, cut := e.reason(), "", ""
	if e.Err != nil {
		last = fmt.Sprint(e.Err) // fmt, because it survives an Error method that panics; once, because it may be long
	}
	if e.Cut != nil {
		cut = fmt.Sprint(e.Cut)
	}
	if (e.Stop == StopDeadline || e.Stop == StopCanceled) && (strings.Contains(last, reason) || strings.Contains(cut, reason)) {
		reason = "" // it is said already
	}
	if e.Attempts == 0 {
		b.WriteString("not started")
		if reason != "" {
			b.WriteString(": " + reason)
		}
	} else {
		fmt.Fprintf(&b, "failed after %d attempt", e.Attempts)
		if e.Attempts != 1 {
			b.WriteByte('s')
		}
		if reason != "" {
			b.WriteString(" (" + reason + ")")
		}
	}
	if e.Err != nil {
		b.WriteString(": " + last)
	}
	if e.Cut != nil {
		fmt.Fprintf(&b, "; attempt %d was cut off: %s", e.Attempts, cut)
	}
	return b.String()
}

func (e *Error) reason() string {
	switch e.Stop {
	case StopDeadline, StopCanceled:
		return e.contextReason()
	case StopRetryAfter:
		return fmt.Sprintf("server asks to wait %v", e.RetryAfter)
	default:
		return stopTexts[e.Stop]
	}
}

var stopTexts = map[StopReason]string{
	StopElapsed: "time limit reached", StopBudget: "local retry budget exhausted", StopTimeout: "timed out",
	StopMaybeApplied: "it may have taken effect", StopBackoff: "stopped by the backoff",
}

func (e *Error) contextReason() string {
	end := e.Stop.ended()
	switch {
	case e.Cause == nil && e.Stop == StopDeadline:
		return "next attempt would miss the context's deadline"
	case e.Cause == nil || errtree.Matches(e.Cause, end):
		return end.Error()
	default:
		return fmt.Sprintf("%v: %v", end, e.Cause)
	}
}

// Unwrap returns Err, Cut and Cause, without those that are nil.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	errs := []error{e.Err, e.Cut, e.Cause}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// Is reports whether target is Stop, or the error of a context with that end.
func (e *Error) Is(target error) bool {
	if e == nil || target == nil || e.Stop == StopNone {
		return false
	}
	return target == e.Stop || target == e.Stop.ended()
}

// Timeout reports whether the context's deadline ended the call, or the outermost error with a
// Timeout method in the tree of the last error says so. Timeout and Temporary make e a net.Error, and
// an error of an http.Client has the same ones as without retries.
func (e *Error) Timeout() bool {
	return e.says(func(err error) func() bool {
		if asked, ok := err.(interface{ Timeout() bool }); ok {
			return asked.Timeout
		}
		return nil
	})
}

// Temporary is Timeout for the method Temporary. net.Error has deprecated it, but callers still ask.
func (e *Error) Temporary() bool {
	return e.says(func(err error) func() bool {
		if asked, ok := err.(interface{ Temporary() bool }); ok {
			return asked.Temporary
		}
		return nil
	})
}

// says returns true for a deadline, and else asks the last error of the operation.
func (e *Error) says(method func(error) func() bool) bool {
	return errtree.Ask(e, func(err error) (answer func() bool, beneath error, over bool) {
		e, ok := err.(*Error)
		switch {
		case !ok:
			return method(err), nil, false
		case e == nil || e.Stop == StopDeadline:
			return func() bool { return e != nil }, nil, false
		case e.Cut != nil:
			return nil, e.Cut, true
		default:
			return nil, e.Err, true
		}
	})
}

// StopReason says why a call was given up. The zero StopReason means that it
// was not given up. docs/why.md explains each reason and its text, and what to set.
//
// It is an error so that [errors.Is] can ask an [*Error] for it:
//
//	if errors.Is(err, retry.StopBudget) {
type StopReason uint8

// The reasons to stop.
const (
	StopNone         StopReason = iota
	StopFinal                   // the error is Final
	StopAttempts                // MaxAttempts failures were counted
	StopElapsed                 // the next attempt would start later than MaxElapsed
	StopDeadline                // the context's deadline has passed, or comes before the next attempt
	StopCanceled                // the context was canceled
	StopBudget                  // the local Budget has no retry left
	StopRetryAfter              // the server's hint is longer than MaxRetryAfter
	StopMaybeApplied            // NonIdempotent, and the failed attempt may have taken effect
	StopTimeout                 // Timeout has passed, or comes before the next attempt
	StopBackoff                 // the Backoff says that there is no other attempt
)

var stopNames = names[StopReason]{
	"none", "final", "attempts", "elapsed", "deadline", "canceled", "budget", "retry_after", "maybe_applied",
	"timeout", "backoff",
}

// Error returns the reason in lower case: "none", "final", "attempts",
// "elapsed", "deadline", "canceled", "budget", "retry_after", "maybe_applied",
// "timeout", "backoff".
func (r StopReason) Error() string { return stopNames.of(r) }

// ended returns the error with which a context of that end is done, or nil.
func (r StopReason) ended() error {
	switch r {
	case StopDeadline:
		return context.DeadlineExceeded
	case StopCanceled:
		return context.Canceled
	default:
		return nil
	}
}

// PanicError is the error of a function that panicked. It is Final, category "panic", unless
// the policy's Classifier or a mark on the Value says otherwise.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // of the goroutine, as [debug.Stack] writes it, from the function that panicked on
	In    string // which function panicked; empty means the work
}

// Error returns the form "panic: index out of range" or "panic in OnEnd: …", with the
// stack on the lines that follow.
func (e *PanicError) Error() string {
	in := e.In
	if in != "" {
		in = " in " + in
	}
	if len(e.Stack) == 0 {
		return fmt.Sprintf("panic%s: %v", in, e.Value)
	}
	return fmt.Sprintf("panic%s: %v\n\n%s", in, e.Value, e.Stack)
}

// Unwrap returns the Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
