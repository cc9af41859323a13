package retrytable

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// PanicError is the error of a function of the program that panicked: the work, or
// another one that a [Worker] calls. It is Final, unless the policy's Classifier or a
// mark on the Value says otherwise.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine, as [runtime/debug.Stack] returns it

	hook string // what panicked; "" is the work
}

// Error returns the form "retrytable: work panicked: index out of range".
func (e *PanicError) Error() string {
	hook := e.hook
	if hook == "" {
		hook = "work"
	}
	return fmt.Sprintf("retrytable: %s panicked: %v", hook, e.Value)
}

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// NonRetryable returns true. [retry.Classify] asks for it.
func (e *PanicError) NonRetryable() bool { return true }

// guard calls fn, which is a function of the program's or calls one, and returns its
// panic as an error.
func guard(hook string, fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack(), hook}
		}
	}()
	return fn()
}

// report tells OnError. If that panics, the log has both, because nobody else is left to
// be told.
func (s *shift[ID]) report(err error) {
	panicked := guard("OnError", func() error {
		s.tell(err)
		return nil
	})
	if panicked != nil {
		s.log(err)
		s.log(panicked)
	}
}

// log is OnError where there is none.
func (s *shift[ID]) log(err error) {
	slog.Default().ErrorContext(s.ctx, "retrytable worker", "table", s.Table.Name, "error", err)
}
