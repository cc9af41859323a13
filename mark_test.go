package retry_test

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
)

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
	tests := []struct {
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
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertClassified(t, tt.want, tt.err)
		})
	}
}

// TestMarksBindClassifiers: no classifier overrules a mark, or is asked
// about one.
func TestMarksBindClassifiers(t *testing.T) {
	t.Parallel()
	marks := map[string]error{
		"final":        retry.MarkFinal(errNobody),
		"retryable":    retry.MarkRetryable(errNobody),
		"rate limited": retry.MarkRateLimited(errNobody, aWhile),
		"unknown":      retry.Mark(errNobody, retry.Verdict{}),
		"lost":         retry.ErrLost,
	}
	for name, err := range marks {
		for _, opinion := range []retry.Verdict{{}, wantFinal("mine"), mayRetry("mine"), mayLimit("mine")} {
			asked := false
			p := &retry.Policy{Classifier: func(error) retry.Verdict { asked = true; return opinion }}
			for _, err := range []error{err, fmt.Errorf("x: %w", err), errors.Join(errNobody, err)} {
				assert.Equal(t, retry.Classify(err), p.Classify(err), name)
			}
			assert.False(t, asked, name)
		}
	}
}

// TestMarksOfNothing: a mark of nil is nil.
func TestMarksOfNothing(t *testing.T) {
	t.Parallel()
	assert.NoError(t, retry.Mark(nil, wantFinal("x")))
	assert.NoError(t, retry.MarkFinal(nil))
	assert.NoError(t, retry.MarkRetryable(nil))
	assert.NoError(t, retry.MarkRateLimited(nil, time.Second))

	// A typed nil pointer is an error.
	marked := retry.MarkFinal((*fs.PathError)(nil))
	require.Error(t, marked)
	assert.Equal(t, "<nil>", marked.Error())
	assert.Equal(t, wantFinal(""), retry.Classify(marked))
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

func TestErrLost(t *testing.T) {
	t.Parallel()
	assertClassified(t, mayRetry("lost"), retry.ErrLost)
	assert.Equal(t, "retry: worker lost", retry.ErrLost.Error())
	require.ErrorIs(t, fmt.Errorf("job 7: %w", retry.ErrLost), retry.ErrLost)
	assert.NotErrorIs(t, errNobody, retry.ErrLost)
	assertClassified(t, wantFinal(""), retry.MarkFinal(retry.ErrLost))
}
