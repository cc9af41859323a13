package retry

import (
	"context"
	"fmt"

	"github.com/seed-5ff3c98e/retry/internal/stack"
)

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

// panicked returns the error of a panic that the caller has recovered.
func panicked(v any, in string) *PanicError {
	return &PanicError{Value: v, Stack: stack.OfPanic(), In: in}
}

// attempted calls work and returns its panic as an error.
func attempted(ctx context.Context, work func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, "")
		}
	}()
	return work(ctx)
}
