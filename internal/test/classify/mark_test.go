package classify_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

func TestClassNames(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"unknown", "final", "retryable", "rate_limited", "pending"} {
		assert.Equal(t, name, retry.Class(i).String(), "the numbers may be stored")
	}
	assert.Equal(t, []retry.Class{0, 1, 2, 3, 4}, []retry.Class{
		retry.Unknown, retry.Final, retry.Retryable, retry.RateLimited, retry.Pending,
	})
	assert.Equal(t, "unknown(9)", retry.Class(9).String())
}

// Marked finds the mark that decides, and nothing else.
func TestMarked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want retry.Verdict
		ok   bool
	}{
		"none":            {errBoom, retry.Verdict{}, false},
		"nil":             {nil, retry.Verdict{}, false},
		"known otherwise": {context.Canceled, retry.Verdict{}, false},
		"an inner end":    {&retry.Error{Err: retry.MarkFinal(errBoom)}, retry.Verdict{}, false},
		"progress alone":  {retry.MarkProgress(errBoom), retry.Verdict{}, false},
		"final":           {fmt.Errorf("x: %w", retry.MarkFinal(errBoom)), retry.Verdict{Class: retry.Final}, true},
		"the outermost": {
			retry.MarkRetryable(retry.MarkFinal(errBoom)), retry.Verdict{Class: retry.Retryable, NotApplied: true}, true,
		},
		"with progress": {
			retry.MarkProgress(retry.MarkFinal(errBoom)), retry.Verdict{Class: retry.Final, Progress: true}, true,
		},
		"lost": {retry.ErrLost, retry.Verdict{Class: retry.Retryable, Category: "lost"}, true},
	} {
		v, ok := retry.Marked(tt.err)
		assert.Equal(t, tt.ok, ok, name)
		assert.Equal(t, tt.want, v, name)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	again, final := retry.MarkRetryable, retry.MarkFinal
	wrap := func(err error) error { return fmt.Errorf("x: %w", err) }
	for _, tt := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"final", final(syscall.ECONNRESET), wantFinal("")},
		{"retryable", again(fs.ErrNotExist), canRetry("")},
		{"rate limited", retry.MarkRateLimited(fs.ErrNotExist, aWhile), hinted(canLimit(""))},
		{"rate limited without a hint", retry.MarkRateLimited(fs.ErrNotExist, 0), canLimit("")},
		{"rate limited with a past hint", retry.MarkRateLimited(fs.ErrNotExist, -1), canLimit("")},
		{"a verdict", retry.Mark(errNobody, hinted(mayRetry("mine"))), hinted(mayRetry("mine"))},
		{"a hint alone", retry.Mark(errNobody, retry.Verdict{After: aWhile}), hinted(mayLimit(""))},
		{"no class", retry.Mark(fs.ErrNotExist, retry.Verdict{}), markedUnknown},
		{"a category alone", retry.Mark(fs.ErrNotExist, retry.Verdict{Category: "mine"}), retry.Verdict{Category: "mine"}},
		{"an impossible class", retry.Mark(fs.ErrNotExist, retry.Verdict{Class: 200}), markedUnknown},

		{"outermost of two", again(final(errNobody)), canRetry("")},
		{"outermost of two, other way", final(again(errNobody)), wantFinal("")},
		{"outermost of two with an error between", again(wrap(final(errNobody))), canRetry("")},
		{"outermost of three", final(wrap(again(wrap(final(errNobody))))), wantFinal("")},
		{"unknown around final", retry.Mark(final(errNobody), retry.Verdict{}), markedUnknown},
		{"beneath an opinion", overRetryableError{says(false), again(errNobody)}, canRetry("")},
		{"beneath a status", overStatusError{says(404), again(errNobody)}, canRetry("")},
		{"beneath a panic in Unwrap", throwingError{}, abstains},

		{"around an inner policy's error", again(gaveUp(retry.StopAttempts, errNobody)), canRetry("")},
		{"beneath an inner policy's error", gaveUp(retry.StopAttempts, again(errNobody)), wantFinal("gave_up")},
		{"beside an inner policy's error", errors.Join(gaveUp(retry.StopAttempts, errNobody), again(errNobody)), canRetry("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

func TestMarksAreTransparent(t *testing.T) {
	t.Parallel()
	cause := &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}
	for _, marked := range []error{
		retry.MarkFinal(cause),
		retry.MarkRetryable(cause),
		retry.MarkRateLimited(cause, time.Second),
		retry.Mark(cause, retry.Verdict{}),
		retry.MarkFinal(retry.MarkRetryable(cause)),
	} {
		assert.Equal(t, cause.Error(), marked.Error())
		assert.Equal(t, cause.Error(), fmt.Sprintf("%v", marked))
		require.ErrorIs(t, marked, fs.ErrNotExist)
		require.ErrorIs(t, marked, cause)
		var found *fs.PathError
		require.ErrorAs(t, marked, &found)
		assert.Same(t, cause, found)
	}
	assert.Equal(t, "a\nb", retry.MarkFinal(errors.Join(errors.New("a"), errors.New("b"))).Error())
}

// gaveUp is the error of an inner policy.
func gaveUp(stop retry.StopReason, err error) *retry.Error {
	return &retry.Error{Attempts: 3, Stop: stop, Err: err}
}

// ofJob is the verdict about the failure of a job.
func ofJob(err error) retry.Verdict {
	return (&retry.Policy{}).Next(retry.State{}, err, time.Time{}).Verdict
}

// The failure that an inner policy gave up decides about a job, and not about a call.
func TestGaveUpInAJob(t *testing.T) {
	t.Parallel()
	const attempts = retry.StopAttempts
	refused, missing := syscall.ECONNREFUSED, fs.ErrNotExist
	late := gaveUp(retry.StopRetryAfter, missing)
	late.RetryAfter = aWhile
	canceled := gaveUp(retry.StopCanceled, refused)
	canceled.Cause = context.Canceled
	busy := gaveUp(retry.StopBudget, retry.MarkRateLimited(errNobody, time.Second))
	busy.RetryAfter = aWhile
	waiting := gaveUp(retry.StopBudget, errNobody)
	waiting.RetryAfter = aWhile
	harmless := gaveUp(attempts, refused)
	harmless.NotApplied = true

	for _, tt := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"cause", gaveUp(attempts, refused), mayRetry("conn_refused")},
		{"final cause", gaveUp(retry.StopBudget, missing), wantFinal("not_found")},
		{"unknown cause", gaveUp(attempts, errNobody), abstains},
		{"marked cause", gaveUp(attempts, retry.MarkFinal(refused)), wantFinal("")},
		{"limited cause", gaveUp(attempts, retry.MarkRateLimited(errNobody, aWhile)), hinted(mayLimit(""))},
		{"long hint", late, hinted(mayLimit("gave_up"))},
		{"canceled with a cause", canceled, mayRetry("conn_refused")},
		{"canceled in the attempt", gaveUp(retry.StopCanceled, context.Canceled), mayRetry("gave_up")},
		{"canceled, and marked", gaveUp(retry.StopCanceled, retry.MarkFinal(context.Canceled)), wantFinal("")},
		{"the longer hint", busy, hinted(mayLimit(""))},
		{"the wait of a budget", waiting, hinted(mayRetry(""))},
		{"no effect", harmless, canRetry("conn_refused")},
		{"no effect, nested", gaveUp(attempts, harmless), mayRetry("conn_refused")},
		{"canceled before the start", gaveUp(retry.StopCanceled, nil), mayRetry("gave_up")},
		{"deadline before the start", gaveUp(retry.StopDeadline, nil), mayRetry("gave_up")},
		{"no attempt", gaveUp(attempts, nil), wantFinal("gave_up")},
		{"wrapped", fmt.Errorf("x: %w", gaveUp(attempts, refused)), mayRetry("conn_refused")},
		{"nested", gaveUp(attempts, fmt.Errorf("x: %w", gaveUp(attempts, refused))), mayRetry("conn_refused")},
		{"nested long hint", gaveUp(attempts, late), hinted(mayLimit("gave_up"))},
		{"nested unknown", gaveUp(attempts, gaveUp(attempts, errNobody)), abstains},
		{"mark around a nested one", gaveUp(attempts, retry.MarkFinal(gaveUp(attempts, refused))), wantFinal("")},
		{
			"mark beside a nested one",
			gaveUp(attempts, errors.Join(retry.MarkFinal(errNobody), gaveUp(attempts, refused))),
			wantFinal(""),
		},
		{"two", errors.Join(gaveUp(attempts, missing), gaveUp(attempts, refused)), retry.Verdict{
			Class: retry.Retryable, Category: "conn_refused",
		}},
		{"beside another error", errors.Join(refused, gaveUp(attempts, missing)), wantFinal("not_found")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := tt.want
			assert.Equal(t, want, ofJob(errors.Join(errNobody, tt.err)))
			assert.Equal(t, want, ofJob(errors.Join(tt.err, errNobody)))
			for _, c := range []retry.Classifier{nil, retry.Extend(nil), retry.Chain(retry.On(retry.Final, fs.ErrClosed), retry.Classify)} {
				p := &retry.Policy{Classifier: c, MaxRetryAfter: time.Hour, NonIdempotent: true}
				job := retryjob.Stored{Policy: p}
				o := job.Attempt(t.Context(), func(context.Context) error { return fmt.Errorf("x: %w", tt.err) })
				assert.Equal(t, want, job.Decision.Verdict)
				assert.Equal(t, want.NotApplied, o == retryjob.Again)
				assert.Equal(t, want, p.Next(retry.State{}, tt.err, time.Time{}).Verdict, "of a row")
				assert.Equal(t, retry.Classify(tt.err), p.Classify(tt.err), "of a call")
			}
		})
	}

	t.Run("a call may ask for it", func(t *testing.T) {
		t.Parallel()
		p := &retry.Policy{Classifier: retry.On(retry.Retryable, attempts)}
		assert.Equal(t, mayRetry(""), p.Classify(gaveUp(attempts, refused)))
		assert.Equal(t, wantFinal("gave_up"), p.Classify(gaveUp(retry.StopMaybeApplied, refused)))
		assert.Equal(t, wantFinal(""), p.Classify(retry.MarkFinal(gaveUp(attempts, refused))))
	})
	t.Run("of itself", func(t *testing.T) {
		t.Parallel()
		itself := gaveUp(attempts, nil)
		itself.Err = errors.Join(itself, itself)
		assert.NotPanics(t, func() { ofJob(itself) }, "and it ends")
	})
}
