package classify_test

import (
	"context"
	"encoding/json"
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

func TestClassNames(t *testing.T) {
	t.Parallel()
	tests := map[retry.Class]string{
		retry.Unknown:     "unknown",
		retry.Final:       "final",
		retry.Retryable:   "retryable",
		retry.RateLimited: "rate_limited",
	}
	for class, name := range tests {
		assert.Equal(t, name, class.String())
		text, err := json.Marshal(map[string]retry.Class{"class": class})
		require.NoError(t, err)
		assert.JSONEq(t, `{"class":"`+name+`"}`, string(text))
		var read map[string]retry.Class
		require.NoError(t, json.Unmarshal(text, &read))
		assert.Equal(t, class, read["class"])
	}
	assert.Equal(t, "unknown(9)", retry.Class(9).String())
	for _, name := range []string{"", "Final", "final ", "unknown(9)", "1"} {
		var class retry.Class
		require.Error(t, class.UnmarshalText([]byte(name)), name)
	}
}

func TestClassText(t *testing.T) {
	t.Parallel()
	classes := []struct {
		class retry.Class
		name  string
	}{
		{retry.Unknown, "unknown"},
		{retry.Final, "final"},
		{retry.Retryable, "retryable"},
		{retry.RateLimited, "rate_limited"},
	}
	for i, c := range classes {
		assert.EqualValues(t, i, c.class, "the numbers may be stored")
		assert.Equal(t, c.name, c.class.String())
		text, err := c.class.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, c.name, string(text))
		back := retry.Class(99)
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, c.class, back)
	}
	assert.Equal(t, "unknown(9)", retry.Class(9).String())
	for _, text := range []string{"", "FINAL", "rate limited", "unknown(9)", "1"} {
		var c retry.Class
		assert.EqualError(t, c.UnmarshalText([]byte(text)), fmt.Sprintf("retry: unknown class %q", text))
	}
}

// TestTextFormsInJSON checks that both serve as values and as map keys.
func TestTextFormsInJSON(t *testing.T) {
	t.Parallel()
	type record struct {
		Stop   retry.StopReason
		Counts map[retry.Class]int
	}
	in := record{retry.StopBudget, map[retry.Class]int{retry.RateLimited: 3, retry.Final: 1}}
	data, err := json.Marshal(in)
	require.NoError(t, err)
	assert.JSONEq(t, `{"Stop": "budget", "Counts": {"rate_limited": 3, "final": 1}}`, string(data))
	var out record
	require.NoError(t, json.Unmarshal(data, &out))
	assert.Equal(t, in, out)
	assert.Error(t, json.Unmarshal([]byte(`{"Stop": "soon"}`), &out))
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
