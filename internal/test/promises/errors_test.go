package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// T-04.
func TestTheLastErrorIsKept(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user went away")
	never := func(context.CancelCauseFunc, int) {}
	// Each operation fails with another error every time; last is that of the
	// attempt whose number is given.
	tests := []struct {
		name    string
		p       retry.Policy
		timeout time.Duration
		during  func(cancel context.CancelCauseFunc, attempt int)
		last    int
		stop    retry.StopReason
		more    []error // that are found as well
	}{
		{"attempts", retry.Policy{}, 0, never, 3, retry.StopAttempts, []error{retry.StopAttempts}},
		{"one attempt", retry.Policy{MaxAttempts: 1}, 0, never, 1, retry.StopAttempts, []error{retry.StopAttempts}},
		{"elapsed", retry.Policy{MaxElapsed: time.Second, Jitter: retry.NoJitter}, 0, never, 1, retry.StopElapsed, []error{retry.StopElapsed}},
		{"budget", retry.Policy{Budget: &retry.Budget{Reserve: 1}}, 0, never, 2, retry.StopBudget, []error{retry.StopBudget}},
		{"may have been applied", retry.Policy{NonIdempotent: true}, 0, never, 1, retry.StopMaybeApplied, []error{retry.StopMaybeApplied}},
		{"deadline ahead", retry.Policy{Jitter: retry.NoJitter}, 3 * time.Second, never, 2, retry.StopDeadline, []error{context.DeadlineExceeded}},
		{"deadline in fn", retry.Policy{}, time.Second, func(context.CancelCauseFunc, int) { time.Sleep(time.Minute) }, 1, retry.StopDeadline, []error{context.DeadlineExceeded}},
		{"canceled in fn", retry.Policy{}, 0, func(cancel context.CancelCauseFunc, attempt int) {
			if attempt == 2 {
				cancel(cause)
			}
		}, 2, retry.StopCanceled, []error{context.Canceled, cause}},
		{"canceled in a wait", retry.Policy{Backoff: retry.Constant(time.Hour)}, 0, func(cancel context.CancelCauseFunc, attempt int) {
			if attempt == 2 {
				time.AfterFunc(time.Minute, func() { cancel(cause) })
			}
		}, 2, retry.StopCanceled, []error{context.Canceled, cause}},
		{"canceled, unlimited", retry.Policy{MaxAttempts: retry.Unlimited}, 0, func(cancel context.CancelCauseFunc, attempt int) {
			if attempt == 100 {
				cancel(cause)
			}
		}, 100, retry.StopCanceled, []error{context.Canceled, cause}},
		{"hint", retry.Policy{Classifier: func(error) retry.Verdict { return retry.Verdict{After: time.Hour} }}, 0, never, 1, retry.StopRetryAfter, []error{retry.StopRetryAfter}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.timeout > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, tt.timeout)
					defer stop()
				}
				var errs []error
				got, err := retry.Do(ctx, &tt.p, func(context.Context) (int, error) {
					errs = append(errs, fmt.Errorf("attempt %d: %w", len(errs)+1, testkit.ErrPeer))
					tt.during(cancel, len(errs))
					return len(errs), errs[len(errs)-1]
				})
				require.Len(t, errs, tt.last)
				assert.Equal(t, tt.last, got, "the value of the last attempt")
				e := testkit.As[*retry.Error](t, err)
				assert.Equal(t, tt.stop, e.Stop)
				assert.Equal(t, tt.last, e.Attempts)
				assert.ErrorIs(t, err, errs[tt.last-1])
				assert.ErrorIs(t, err, testkit.ErrPeer)
				assert.ErrorContains(t, err, "attempt "+strconv.Itoa(tt.last))
				for _, more := range tt.more {
					assert.ErrorIs(t, err, more)
				}
				if ctx.Err() != nil {
					assert.ErrorIs(t, err, context.Cause(ctx))
				}
			})
		})
	}

	t.Run("final, also by a classifier", func(t *testing.T) {
		t.Parallel()
		p := &retry.Policy{Classifier: retry.On(retry.Final, testkit.ErrPeer)}
		fn, _ := testkit.Failing(testkit.ErrPeer)
		assert.Equal(t, testkit.ErrPeer, p.Execute(t.Context(), fn))
	})
	t.Run("stored", func(t *testing.T) {
		t.Parallel()
		p := &retry.Policy{}
		d := p.Next(retry.State{Failures: 2}, testkit.ErrPeer, time.Unix(0, 0))
		assert.ErrorIs(t, d.Err, testkit.ErrPeer)
		assert.ErrorIs(t, d.Err, retry.StopAttempts)
	})
}

// T-05.
func TestFinalErrorsHaveOneShape(t *testing.T) {
	t.Parallel()
	marked := retry.MarkFinal(testkit.ErrPeer)
	const attempts = 4
	tests := []struct {
		name string
		p    retry.Policy
		err  error
	}{
		{"marked", retry.Policy{}, marked},
		{"marked beneath", retry.Policy{}, fmt.Errorf("step 2: %w", marked)},
		{"by a classifier", retry.Policy{Classifier: retry.On(retry.Final, testkit.ErrPeer)}, testkit.ErrPeer},
		{"by its type", retry.Policy{}, fs.ErrNotExist},
		{"with an observer", retry.Policy{Observer: retry.Observers()}, marked},
		{"with an attempt timeout", retry.Policy{AttemptTimeout: time.Hour}, marked},
		{"non-idempotent", retry.Policy{NonIdempotent: true}, marked},
		{"empty budget", retry.Policy{Budget: &retry.Budget{Reserve: 100}}, marked},
		{"unlimited", retry.Policy{MaxAttempts: retry.Unlimited}, marked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for at := 1; at <= attempts; at++ {
				p := tt.p
				p.Backoff = retry.Constant(0)
				if p.MaxAttempts == 0 {
					p.MaxAttempts = attempts
				}
				calls := 0
				err := p.Execute(t.Context(), func(context.Context) error {
					if calls++; calls == at {
						return tt.err
					}
					return retry.MarkRetryable(io.ErrNoProgress)
				})
				assert.Equal(t, at, calls)
				assert.Same(t, tt.err, err, "on attempt %d", at)

				d := p.Next(retry.State{Failures: at - 1}, tt.err, time.Unix(0, 0))
				assert.Equal(t, retry.StopFinal, d.Stop)
				assert.Same(t, tt.err, d.Err, "stored, on attempt %d", at)
			}
		})
	}
}

// T-17.
func TestWrappingAroundMarksSurvives(t *testing.T) {
	t.Parallel()
	other := errors.New("clean up failed")
	for name, mark := range map[string]func(error) error{
		"final":        retry.MarkFinal,
		"retryable":    retry.MarkRetryable,
		"rate limited": func(err error) error { return retry.MarkRateLimited(err, 1) },
	} {
		for shape, opErr := range map[string]error{
			"wrapped":       fmt.Errorf("step 2: %w", mark(testkit.ErrPeer)),
			"joined":        errors.Join(other, mark(testkit.ErrPeer)),
			"marked twice":  mark(fmt.Errorf("step 2: %w", mark(testkit.ErrPeer))),
			"wrapped twice": fmt.Errorf("job: %w", fmt.Errorf("step 2: %w, %w", mark(testkit.ErrPeer), other)),
		} {
			t.Run(name+" "+shape, func(t *testing.T) {
				t.Parallel()
				p := &retry.Policy{Backoff: retry.Constant(0)}
				fn, calls := testkit.Failing(opErr)
				err := p.Execute(t.Context(), fn)
				assert.ErrorIs(t, err, testkit.ErrPeer)
				assert.ErrorIs(t, err, opErr)
				assert.ErrorContains(t, err, opErr.Error())
				assert.Equal(t, errors.Is(opErr, other), errors.Is(err, other))
				if name == "final" {
					assert.Equal(t, 1, *calls)
					assert.Equal(t, opErr, err)
				} else {
					assert.Equal(t, 3, *calls)
				}
			})
		}
	}
}

// T-18.
func TestWhoseContextEnded(t *testing.T) {
	t.Parallel()
	t.Run("the operation's deadline", func(t *testing.T) {
		t.Parallel()
		p := &retry.Policy{Backoff: retry.Constant(0)}
		fn, calls := testkit.Failing(fmt.Errorf("query: %w", context.DeadlineExceeded))
		err := p.Execute(t.Context(), fn)
		assert.Equal(t, 3, *calls)
		e := testkit.As[*retry.Error](t, err)
		assert.Equal(t, retry.StopAttempts, e.Stop)
		assert.NoError(t, e.Cause)
		assert.ErrorIs(t, err, retry.StopAttempts)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("the caller's deadline", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := new(retry.Policy).Execute(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			e := testkit.As[*retry.Error](t, err)
			assert.Equal(t, retry.StopDeadline, e.Stop)
			assert.Equal(t, context.DeadlineExceeded, e.Cause)
			assert.NotErrorIs(t, err, retry.StopAttempts)
		})
	})
	t.Run("an attempt's deadline", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := &retry.Policy{AttemptTimeout: time.Second, MaxAttempts: 1}
			err := p.Execute(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			e := testkit.As[*retry.Error](t, err)
			assert.Equal(t, retry.StopAttempts, e.Stop)
			assert.NoError(t, e.Cause)
		})
	})
	t.Run("the operation was canceled", func(t *testing.T) {
		t.Parallel()
		fn, calls := testkit.Failing(context.Canceled)
		err := new(retry.Policy).Execute(t.Context(), fn)
		assert.Equal(t, 1, *calls)
		assert.Equal(t, context.Canceled, err, "final, and so as it is")
	})
	t.Run("the caller canceled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		err := new(retry.Policy).Execute(ctx, func(ctx context.Context) error { cancel(); return ctx.Err() })
		assert.Equal(t, retry.StopCanceled, testkit.As[*retry.Error](t, err).Stop)
	})
}

// T-28.
func TestNestedPoliciesDoNotMultiply(t *testing.T) {
	t.Parallel()
	type result struct {
		calls int
		stop  retry.StopReason // of the outer policy; none for an error that is returned as it is
	}
	outer := retry.Policy{Backoff: retry.Constant(0)}
	through := outer
	through.Classifier = retry.ThroughGiveUp
	plain := retry.Policy{Backoff: retry.Constant(0)}
	tests := []struct {
		name         string
		outer, inner retry.Policy
		err          error
		want         result
	}{
		{"given up", outer, plain, testkit.ErrPeer, result{3, retry.StopNone}},
		{"marks beneath are spent", outer, plain, retry.MarkRetryable(testkit.ErrPeer), result{3, retry.StopNone}},
		{"final stays final", outer, plain, retry.MarkFinal(testkit.ErrPeer), result{1, retry.StopNone}},
		{"final by the inner classifier only", outer, retry.Policy{Classifier: retry.On(retry.Final, testkit.ErrPeer)}, testkit.ErrPeer, result{3, retry.StopAttempts}},
		{"a hint too long for the inner policy", outer, plain, retry.MarkRateLimited(testkit.ErrPeer, time.Hour), result{1, retry.StopRetryAfter}},
		{"through", through, plain, testkit.ErrPeer, result{9, retry.StopAttempts}},
		{"through to a final cause", through, retry.Policy{MaxAttempts: 1, Classifier: retry.On(retry.Retryable, fs.ErrNotExist)}, fs.ErrNotExist, result{1, retry.StopNone}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fn, calls := testkit.Failing(tt.err)
			err := tt.outer.Execute(t.Context(), func(ctx context.Context) error {
				if err := tt.inner.Execute(ctx, fn); err != nil {
					return fmt.Errorf("inner: %w", err)
				}
				return nil
			})
			assert.Equal(t, tt.want.calls, *calls)
			assert.ErrorIs(t, err, tt.err)
			e, gaveUp := err.(*retry.Error) // not errors.As: that of the outer policy
			assert.Equal(t, tt.want.stop != retry.StopNone, gaveUp)
			if gaveUp {
				assert.Equal(t, tt.want.stop, e.Stop)
			}
		})
	}

	t.Run("an inner deadline is retried", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			fn, calls := testkit.Failing(testkit.ErrPeer)
			err := outer.Execute(t.Context(), func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				return (&retry.Policy{Backoff: retry.Constant(time.Minute)}).Execute(ctx, fn)
			})
			assert.Equal(t, 3, *calls)
			assert.ErrorIs(t, err, retry.StopAttempts)
		})
	})
	t.Run("verdicts", func(t *testing.T) {
		t.Parallel()
		gaveUp := func(stop retry.StopReason) error {
			return fmt.Errorf("inner: %w", &retry.Error{Stop: stop, RetryAfter: time.Hour, Err: retry.MarkRetryable(testkit.ErrPeer)})
		}
		for stop := retry.StopNone; stop <= retry.StopMaybeApplied; stop++ {
			want := retry.Verdict{Class: retry.Final, Category: "gave_up"}
			switch stop {
			case retry.StopDeadline, retry.StopCanceled:
				want.Class = retry.Retryable
			case retry.StopRetryAfter:
				want.Class, want.After = retry.RateLimited, time.Hour
			}
			assert.Equal(t, want, retry.Classify(gaveUp(stop)), stop)
			assert.Equal(t, retry.Retryable, retry.Classify(retry.MarkRetryable(gaveUp(stop))).Class, "a mark around it decides")
		}
	})
	t.Run("marks stay in the returned error", func(t *testing.T) {
		t.Parallel()
		fn, _ := testkit.Failing(retry.MarkFinal(testkit.ErrPeer))
		err := outer.Execute(t.Context(), fn)
		assert.Equal(t, retry.Verdict{Class: retry.Final}, retry.Classify(err))
	})
}

// typedNilError is an error whose methods need a receiver.
type typedNilError struct{ text string }

func (e *typedNilError) Error() string { return e.text }

func (e *typedNilError) RetryAfter() time.Duration { return time.Duration(len(e.text)) }

func (e *typedNilError) Unwrap() error { return errors.New(e.text) }

// T-10.
func TestNilErrors(t *testing.T) {
	t.Parallel()
	assert.NoError(t, retry.Mark(nil, retry.Verdict{Class: retry.Final}))
	assert.NoError(t, retry.MarkFinal(nil))
	assert.NoError(t, retry.MarkRetryable(nil))
	assert.NoError(t, retry.MarkRateLimited(nil, time.Hour))
	assert.Zero(t, retry.Classify(nil))
	assert.Zero(t, retry.ThroughGiveUp(nil))
	assert.Zero(t, retry.On(retry.Final, testkit.ErrPeer)(nil))
	s := retry.State{Failures: 2, Key: "k"}
	assert.Equal(t, retry.Decision{State: s}, new(retry.Policy).Next(s, nil, time.Unix(0, 0)))

	for _, typedNil := range []error{(*typedNilError)(nil), (*retry.Error)(nil), (*fs.PathError)(nil)} {
		t.Run(fmt.Sprintf("%T", typedNil), func(t *testing.T) {
			t.Parallel()
			for _, err := range []error{
				typedNil,
				retry.Mark(typedNil, retry.Verdict{Class: retry.Retryable}),
				retry.MarkRetryable(typedNil),
				errors.Join(typedNil, typedNil),
				&retry.Error{Stop: retry.StopAttempts, Err: typedNil},
			} {
				assert.NotPanics(t, func() {
					retry.Classify(err)
					retry.ThroughGiveUp(err)
					retry.On(retry.Final, testkit.ErrPeer)(err)
				})
				if err != typedNil {
					assert.NotPanics(t, func() { _ = fmt.Sprint(err) })
				}
			}
			assert.NotPanics(t, func() { _ = retry.MarkFinal(typedNil).Error() })

			fn, calls := testkit.Failing(typedNil)
			p := &retry.Policy{Backoff: retry.Constant(0)}
			err := p.Execute(t.Context(), fn)
			assert.Equal(t, 3, *calls)
			assert.Equal(t, typedNil, testkit.As[*retry.Error](t, err).Err)
			assert.NotPanics(t, func() { _ = err.Error() })

			fn, calls = testkit.Failing(retry.MarkFinal(typedNil))
			assert.Error(t, p.Execute(t.Context(), fn))
			assert.Equal(t, 1, *calls)
		})
	}
}

// peerHeavy is an error that takes memory.
type peerHeavy struct {
	attempt int
	_       [1024]byte
}

func (e *peerHeavy) Error() string { return "attempt " + strconv.Itoa(e.attempt) }

// T-49.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const attempts = 100_000
	cause := errors.New("enough")
	for name, p := range map[string]*retry.Policy{
		"plain":    {},
		"observer": {Observer: retry.ObserverFunc(func(context.Context, retry.Event) {})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.MaxAttempts, p.Backoff = retry.Unlimited, retry.Constant(0)
			ctx, cancel := context.WithCancelCause(t.Context())
			var early []weak.Pointer[peerHeavy]
			var last *peerHeavy
			calls := 0
			err := p.Execute(ctx, func(context.Context) error {
				calls++
				last = &peerHeavy{attempt: calls}
				if calls%(attempts/100) == 1 {
					early = append(early, weak.Make(last))
				}
				if calls < attempts {
					return last
				}
				runtime.GC()
				for _, e := range early {
					assert.Nil(t, e.Value(), "an early error is still there")
				}
				cancel(cause)
				return last
			})
			require.Equal(t, attempts, calls)
			assert.Len(t, early, 100)
			assert.ErrorIs(t, err, last)
			assert.ErrorIs(t, err, cause)
			assert.ErrorIs(t, err, context.Canceled)
			e := testkit.As[*retry.Error](t, err)
			assert.Equal(t, attempts, e.Attempts)
			assert.Equal(t, []error{last, cause}, e.Unwrap())
			assert.Less(t, len(err.Error()), 200)
		})
	}
}

// T-51.
func TestZeroErrorsAreSafe(t *testing.T) {
	t.Parallel()
	zeros := map[string]error{
		"nil *Error":            (*retry.Error)(nil),
		"zero Error":            &retry.Error{},
		"attempts only":         &retry.Error{Attempts: 1},
		"unknown stop":          &retry.Error{Stop: 200},
		"lost":                  retry.ErrLost,
		"mark of a nil *Error":  retry.MarkFinal((*retry.Error)(nil)),
		"mark of a zero Error":  retry.MarkFinal(&retry.Error{}),
		"reason":                retry.StopAttempts,
		"Error around a nil *E": &retry.Error{Attempts: 1, Err: (*retry.Error)(nil), Cause: (*retry.Error)(nil)},
	}
	for stop := retry.StopNone; stop <= retry.StopBackoff+1; stop++ {
		zeros["stop "+stop.Error()] = &retry.Error{Stop: stop}
	}
	targets := []error{nil, testkit.ErrPeer, context.Canceled, peerIncomparable{"x"}, &retry.Error{}, (*retry.Error)(nil), retry.ErrLost}
	for name, err := range zeros {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.NotPanics(t, func() {
				assert.NotEmpty(t, err.Error())
				for _, target := range targets {
					_ = errors.Is(err, target)
				}
				_ = errors.As(err, new(*retry.Error))
				_ = errors.As(err, new(*fs.PathError))
				_ = errors.Unwrap(err)
				_ = retry.Classify(err)
				_ = fmt.Sprintf("%v %+v %s %q", err, err, err, err)
			})
			assert.NotErrorIs(t, err, testkit.ErrPeer)
		})
	}
	assert.NotErrorIs(t, &retry.Error{}, retry.StopAttempts)
	assert.Empty(t, (&retry.Error{}).Unwrap())
	assert.Empty(t, (*retry.Error)(nil).Unwrap())
	_, err := json.Marshal(&retry.Error{})
	assert.NoError(t, err)
}

// T-52.
func TestAFailureIsNeverNil(t *testing.T) {
	t.Parallel()
	errs := map[string]error{
		"plain":             testkit.ErrPeer,
		"canceled":          context.Canceled,
		"deadline exceeded": context.DeadlineExceeded,
		"eof":               io.EOF,
		"marked":            retry.MarkFinal(context.Canceled),
		"inner":             &retry.Error{Stop: retry.StopCanceled, Cause: context.Canceled},
		"zero inner":        &retry.Error{},
		"typed nil":         (*retry.Error)(nil),
		"reason":            retry.StopAttempts,
	}
	for name, opErr := range errs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name := range everyWay() {
				for _, before := range []error{nil, retry.MarkRetryable(errors.New("before"))} {
					for _, cancels := range []bool{false, true} {
						p := everyWay()[name] // with a budget of its own
						if !cancels && p != nil && p.MaxAttempts == retry.Unlimited {
							continue
						}
						synctest.Test(t, func(t *testing.T) {
							ctx, cancel := context.WithCancel(t.Context())
							defer cancel()
							calls := 0
							got, err := retry.Do(ctx, p, func(context.Context) (int, error) {
								if calls++; calls == 1 && before != nil {
									return calls, before
								}
								if cancels {
									cancel()
								}
								return calls, opErr
							})
							if assert.Error(t, err, name) {
								assert.ErrorIs(t, err, opErr, name)
							}
							assert.Equal(t, calls, got, "the value of the last attempt")
						})
					}
				}
			}
		})
	}
}

// T-20.
func TestClassifiersDoNotOverruleMarks(t *testing.T) {
	t.Parallel()
	always := func(c retry.Class) retry.Classifier {
		return func(error) retry.Verdict { return retry.Verdict{Class: c, Category: "mine"} }
	}
	tests := []struct {
		name       string
		classifier retry.Classifier
		err        error
		calls      int
	}{
		{"final", always(retry.Retryable), retry.MarkFinal(testkit.ErrPeer), 1},
		{"final, wrapped", always(retry.Retryable), fmt.Errorf("step 2: %w", retry.MarkFinal(testkit.ErrPeer)), 1},
		{"final, joined", always(retry.Retryable), errors.Join(io.EOF, retry.MarkFinal(testkit.ErrPeer)), 1},
		{"final, in a chain", retry.Chain(always(retry.Retryable)), retry.MarkFinal(testkit.ErrPeer), 1},
		{"final, by On", retry.On(retry.Retryable, testkit.ErrPeer), retry.MarkFinal(testkit.ErrPeer), 1},
		{"final, through give-ups", retry.ThroughGiveUp, retry.MarkFinal(&retry.Error{Err: testkit.ErrPeer}), 1},
		{"retryable", always(retry.Final), retry.MarkRetryable(testkit.ErrPeer), 5},
		{"unknown", always(retry.Final), retry.Mark(testkit.ErrPeer, retry.Verdict{}), 5},
		{"without a mark", always(retry.Final), testkit.ErrPeer, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, attempts := range []int{5, retry.Unlimited} {
				p := retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(0), Classifier: tt.classifier}
				calls := 0
				err := p.Execute(t.Context(), func(context.Context) error {
					if calls++; calls > 5 {
						return nil
					}
					return tt.err
				})
				if attempts == retry.Unlimited && tt.calls > 1 {
					assert.NoError(t, err)
					continue
				}
				assert.Equal(t, tt.calls, calls)
				assert.ErrorIs(t, err, testkit.ErrPeer)
			}
		})
	}
}

// T-22.
func TestFiniteAndUnlimitedAreOnePath(t *testing.T) {
	t.Parallel()
	cause := errors.New("stop")
	type script func(cancel context.CancelCauseFunc, attempt int) error
	always := func(err error) script { return func(context.CancelCauseFunc, int) error { return err } }
	tests := []struct {
		name string
		p    retry.Policy
		fn   script
	}{
		{"success at once", retry.Policy{}, always(nil)},
		{"success later", retry.Policy{}, func(_ context.CancelCauseFunc, attempt int) error {
			if attempt == 4 {
				return nil
			}
			return testkit.ErrPeer
		}},
		{"final", retry.Policy{}, func(_ context.CancelCauseFunc, attempt int) error {
			if attempt == 3 {
				return retry.MarkFinal(testkit.ErrPeer)
			}
			return testkit.ErrPeer
		}},
		{"canceled", retry.Policy{}, func(cancel context.CancelCauseFunc, attempt int) error {
			if attempt == 3 {
				cancel(cause)
			}
			return testkit.ErrPeer
		}},
		{"canceled in a wait", retry.Policy{}, func(cancel context.CancelCauseFunc, attempt int) error {
			if attempt == 3 {
				time.AfterFunc(time.Second, func() { cancel(cause) })
			}
			return testkit.ErrPeer
		}},
		{"elapsed", retry.Policy{MaxElapsed: 20 * time.Second}, always(testkit.ErrPeer)},
		{"budget", retry.Policy{Budget: &retry.Budget{Reserve: 2}}, always(testkit.ErrPeer)},
		{"hint", retry.Policy{}, always(retry.MarkRateLimited(testkit.ErrPeer, time.Hour))},
		{"override", retry.Policy{Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 4}}}, always(testkit.ErrPeer)},
		{"non-idempotent", retry.Policy{NonIdempotent: true}, always(testkit.ErrPeer)},
	}
	type outcome struct {
		calls  int
		err    error
		took   time.Duration
		events []retry.Event
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := func(attempts int) (o outcome) {
				synctest.Test(t, func(t *testing.T) {
					p := tt.p
					if p.Budget != nil {
						p.Budget = &retry.Budget{Reserve: p.Budget.(*retry.Budget).Reserve}
					}
					p.MaxAttempts, p.Jitter = attempts, retry.NoJitter
					p.Observer = retry.ObserverFunc(func(_ context.Context, e retry.Event) { o.events = append(o.events, e) })
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					start := time.Now()
					o.err = p.Execute(ctx, func(context.Context) error {
						o.calls++
						return tt.fn(cancel, o.calls)
					})
					o.took = time.Since(start)
				})
				return o
			}
			finite, unlimited := run(1000), run(retry.Unlimited)
			assert.Equal(t, finite, unlimited)
			assert.Less(t, finite.calls, 10)
		})
	}
}

// T-21.
func TestEventsAreExact(t *testing.T) {
	t.Parallel()
	const retrying, succeeded, gaveUp = retry.Retrying, retry.Succeeded, retry.GaveUp
	tests := []struct {
		name string
		p    retry.Policy
		fn   func(cancel context.CancelFunc, attempt int) error
		dead bool
		want []retry.EventKind
		stop retry.StopReason
	}{
		{
			"success",
			retry.Policy{},
			func(context.CancelFunc, int) error { return nil }, false,
			[]retry.EventKind{succeeded},
			retry.StopNone,
		},
		{"success on the third attempt", retry.Policy{}, func(_ context.CancelFunc, attempt int) error {
			if attempt == 3 {
				return nil
			}
			return testkit.ErrPeer
		}, false, []retry.EventKind{retrying, retrying, succeeded}, retry.StopNone},
		{
			"attempts",
			retry.Policy{},
			func(context.CancelFunc, int) error { return testkit.ErrPeer }, false,
			[]retry.EventKind{retrying, retrying, gaveUp},
			retry.StopAttempts,
		},
		{
			"one attempt",
			retry.Policy{MaxAttempts: 1},
			func(context.CancelFunc, int) error { return testkit.ErrPeer }, false,
			[]retry.EventKind{gaveUp},
			retry.StopAttempts,
		},
		{
			"final",
			retry.Policy{},
			func(context.CancelFunc, int) error { return retry.MarkFinal(testkit.ErrPeer) }, false,
			[]retry.EventKind{gaveUp},
			retry.StopFinal,
		},
		{"canceled in fn", retry.Policy{}, func(cancel context.CancelFunc, attempt int) error {
			if attempt == 2 {
				cancel()
			}
			return testkit.ErrPeer
		}, false, []retry.EventKind{retrying, gaveUp}, retry.StopCanceled},
		{"canceled in a wait", retry.Policy{Backoff: retry.Constant(time.Minute)}, func(cancel context.CancelFunc, _ int) error {
			time.AfterFunc(time.Second, cancel)
			return testkit.ErrPeer
		}, false, []retry.EventKind{retrying, gaveUp}, retry.StopCanceled},
		{
			"success after cancellation",
			retry.Policy{},
			func(cancel context.CancelFunc, _ int) error { cancel(); return nil }, false,
			[]retry.EventKind{succeeded},
			retry.StopNone,
		},
		{"not started", retry.Policy{}, nil, true, []retry.EventKind{gaveUp}, retry.StopCanceled},
		{
			"budget",
			retry.Policy{Budget: &retry.Budget{Reserve: 1}},
			func(context.CancelFunc, int) error { return testkit.ErrPeer }, false,
			[]retry.EventKind{retrying, gaveUp},
			retry.StopBudget,
		},
		{
			"hint too long",
			retry.Policy{},
			func(context.CancelFunc, int) error { return retry.MarkRateLimited(testkit.ErrPeer, time.Hour) }, false,
			[]retry.EventKind{gaveUp},
			retry.StopRetryAfter,
		},
		{
			"elapsed",
			retry.Policy{MaxElapsed: 3 * time.Second, Jitter: retry.NoJitter},
			func(context.CancelFunc, int) error { return testkit.ErrPeer }, false,
			[]retry.EventKind{retrying, gaveUp},
			retry.StopElapsed,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.dead {
					cancel()
				}
				var kinds []retry.EventKind
				var last retry.Event
				p, calls := tt.p, 0
				p.Name = "task"
				p.Observer = retry.ObserverFunc(func(_ context.Context, e retry.Event) {
					kinds = append(kinds, e.Kind)
					last = e
					assert.Equal(t, calls, e.Attempt)
					assert.Equal(t, "task", e.Policy)
					if e.Kind == retrying {
						assert.Equal(t, len(kinds), e.Attempt)
						assert.Equal(t, testkit.ErrPeer, e.Err)
						assert.Equal(t, retry.StopNone, e.Stop)
					}
				})
				err := p.Execute(ctx, func(context.Context) error {
					calls++
					return tt.fn(cancel, calls)
				})
				assert.Equal(t, tt.want, kinds)
				assert.Equal(t, tt.stop, last.Stop)
				assert.Equal(t, err, last.Err)
				assert.Zero(t, last.Delay)
			})
		})
	}
}
