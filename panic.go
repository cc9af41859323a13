package retry

import "fmt"

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
