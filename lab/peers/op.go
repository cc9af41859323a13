package peers

import (
	"context"
	"errors"
	"time"
)

var (
	errBoom  = errors.New("boom")
	errFinal = errors.New("final")
)

// isFinal is the question that every contestant asks about every failure.
func isFinal(err error) bool { return errors.Is(err, errFinal) }

// op is one operation without variables in all the forms that libraries take, so
// that nobody pays for an adapter that a user would not need.
type op struct {
	err      func() error
	errCtx   func(context.Context) error
	value    func() (int, error)
	valueCtx func(context.Context) (int, error)
	done     func(context.Context) (bool, error)
}

// answer is the value of an operation.
const answer = 42

var succeed = &op{succeedErr, succeedErrCtx, succeedValue, succeedValueCtx, succeedDone}

//go:noinline
func succeedErr() error { return nil }

//go:noinline
func succeedErrCtx(context.Context) error { return nil }

//go:noinline
func succeedValue() (int, error) { return answer, nil }

//go:noinline
func succeedValueCtx(context.Context) (int, error) { return answer, nil }

//go:noinline
func succeedDone(context.Context) (bool, error) { return true, nil }

// script says what an operation does: it fails so often, and then ends with end.
type script struct {
	failures int
	end      error
	marked   bool   // end is all that can go wrong, and is marked already
	trace    *trace // nil while it is measured
}

// mark returns the script of an operation that has marked its error beforehand.
func (s *script) mark(final func(error) error) *script {
	marked := *s
	marked.end, marked.marked = final(s.end), true
	return &marked
}

// asItIs is the mark of an error that is final without one.
func asItIs(err error) error { return err }

// do is the operation of a closure; call counts its calls from 1.
//
//go:noinline
func (s *script) do(ctx context.Context, call int) error {
	if s.trace != nil {
		s.trace.called(ctx)
	}
	if call <= s.failures {
		return errBoom
	}
	return s.end
}

// op returns the script as an operation in the forms that c may take. It does not
// count its calls, and so always fails or always succeeds.
func (s *script) op(ctx context.Context, c *Contestant) *op {
	run := func(ctx context.Context) error {
		err := s.do(ctx, 1)
		if err != nil && c.retryable != nil {
			err = c.retryable(err)
		}
		return err
	}
	return &op{
		err:      func() error { return run(ctx) },
		errCtx:   run,
		value:    func() (int, error) { return answer, run(ctx) },
		valueCtx: func(ctx context.Context) (int, error) { return answer, run(ctx) },
		done: func(ctx context.Context) (bool, error) {
			return doneOrFinal(run(ctx))
		},
	}
}

// trace records the calls of an operation for the tests.
type trace struct {
	start  time.Time
	calls  []call
	onCall func()
}

type call struct {
	at    time.Duration // since the start
	ended bool          // its context had ended
}

func (t *trace) called(ctx context.Context) {
	t.calls = append(t.calls, call{time.Since(t.start), ctx.Err() != nil})
	if t.onCall != nil {
		t.onCall()
	}
}

// all makes one option of many, for libraries that take options in every call.
func all[Config any, Option ~func(Config)](options ...Option) Option {
	return func(c Config) {
		for _, option := range options {
			option(c)
		}
	}
}

// instant is a timer that has always fired.
type instant struct{}

var fired = func() chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// After implements the Timer of those libraries that let one be injected.
func (instant) After(time.Duration) <-chan time.Time { return fired }
