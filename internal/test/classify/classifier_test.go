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

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// gaveUp is the error of an inner policy.
func gaveUp(stop retry.StopReason, err error) *retry.Error {
	return &retry.Error{Attempts: 3, Stop: stop, Err: err}
}

func TestThroughGiveUp(t *testing.T) {
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

	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"no inner policy", refused, abstains},
		{"no inner policy, marked", retry.MarkFinal(refused), abstains},
		{"nil inner policy", (*retry.Error)(nil), abstains},
		{"cause", gaveUp(attempts, refused), mayRetry("conn_refused")},
		{"final cause", gaveUp(retry.StopBudget, missing), wantFinal("not_found")},
		{"unknown cause", gaveUp(attempts, errNobody), retry.Verdict{Category: "gave_up"}},
		{"marked cause", gaveUp(attempts, retry.MarkFinal(refused)), wantFinal("")},
		{"limited cause", gaveUp(attempts, retry.MarkRateLimited(errNobody, aWhile)), hinted(mayLimit(""))},
		{"long hint", late, hinted(mayLimit("gave_up"))},
		{"canceled with a cause", canceled, mayRetry("conn_refused")},
		{"canceled in the attempt", gaveUp(retry.StopCanceled, context.Canceled), mayRetry("gave_up")},
		{"canceled, and marked", gaveUp(retry.StopCanceled, retry.MarkFinal(context.Canceled)), wantFinal("")},
		{"the longer hint", busy, hinted(mayLimit(""))},
		{"the wait of a budget", waiting, hinted(mayRetry("gave_up"))},
		{"no effect", harmless, canRetry("conn_refused")},
		{"no effect, nested", gaveUp(attempts, harmless), mayRetry("conn_refused")},
		{"canceled before the start", gaveUp(retry.StopCanceled, nil), mayRetry("gave_up")},
		{"deadline before the start", gaveUp(retry.StopDeadline, nil), mayRetry("gave_up")},
		{"no attempt", gaveUp(attempts, nil), wantFinal("gave_up")},
		{"wrapped", fmt.Errorf("x: %w", gaveUp(attempts, refused)), mayRetry("conn_refused")},
		{"nested", gaveUp(attempts, fmt.Errorf("x: %w", gaveUp(attempts, refused))), mayRetry("conn_refused")},
		{"nested long hint", gaveUp(attempts, late), hinted(mayLimit("gave_up"))},
		{"nested unknown", gaveUp(attempts, gaveUp(attempts, errNobody)), retry.Verdict{Category: "gave_up"}},
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
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertVerdict(t, tt.want, retry.ThroughGiveUp(tt.err))
			assertVerdict(t, tt.want, retry.ThroughGiveUp(fmt.Errorf("x: %w", tt.err)))
			assertVerdict(t, tt.want, retry.ThroughGiveUp(errors.Join(errNobody, tt.err)))
			assertVerdict(t, tt.want, retry.ThroughGiveUp(errors.Join(tt.err, errNobody)))
			if tt.want == abstains {
				return
			}
			want := tt.want
			if want.Class == retry.Unknown || want == hinted(mayRetry("gave_up")) {
				want.Category = "" // only a Classifier needs one
			}
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

	t.Run("as a classifier", func(t *testing.T) {
		t.Parallel()
		p := &retry.Policy{Classifier: retry.ThroughGiveUp}
		assert.Equal(t, mayRetry("conn_refused"), p.Classify(gaveUp(attempts, refused)))
		assert.Equal(t, mayRetry("conn_refused"), p.Classify(refused))
		assert.Equal(t, wantFinal(""), p.Classify(retry.MarkFinal(gaveUp(attempts, refused))))
		assert.True(t, p.Next(retry.State{}, gaveUp(attempts, errNobody), time.Time{}).Retry)
	})
	t.Run("of itself", func(t *testing.T) {
		t.Parallel()
		itself := gaveUp(attempts, nil)
		itself.Err = errors.Join(itself, itself)
		assert.NotPanics(t, func() { retry.ThroughGiveUp(itself) }, "and it ends")
	})
}
