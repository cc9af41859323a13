package retry_test

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
		parsed, err := retry.ParseClass(name)
		require.NoError(t, err)
		assert.Equal(t, class, parsed)

		text, err := json.Marshal(map[string]retry.Class{"class": class})
		require.NoError(t, err)
		assert.JSONEq(t, `{"class":"`+name+`"}`, string(text))
		var read map[string]retry.Class
		require.NoError(t, json.Unmarshal(text, &read))
		assert.Equal(t, class, read["class"])
	}
	assert.Equal(t, "unknown(9)", retry.Class(9).String())
	for _, name := range []string{"", "Final", "final ", "unknown(9)", "1"} {
		_, err := retry.ParseClass(name)
		require.Error(t, err, name)
		var class retry.Class
		require.Error(t, class.UnmarshalText([]byte(name)), name)
	}
}

func TestVerdictZeroAbstains(t *testing.T) {
	t.Parallel()
	assert.Zero(t, retry.Classify(nil))
	assert.Zero(t, retry.Classify(errNobody))
	assert.Zero(t, retry.ThroughGiveUp(nil))
	assert.Zero(t, (&retry.Policy{}).Classify(nil))
	assert.Zero(t, (*retry.Policy)(nil).Classify(errNobody))
}

// busyError is an error that only a classifier of its owner understands.
type busyError struct{ cause error }

func (*busyError) Error() string   { return "busy" }
func (e *busyError) Unwrap() error { return e.cause }

func TestExtend(t *testing.T) {
	t.Parallel()
	busy := retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "busy"}
	named := retry.Verdict{Category: "named"}
	errNamed := errors.New("named")
	classify := retry.Extend(func(err error) retry.Verdict {
		if _, ok := err.(*busyError); ok {
			return busy
		}
		if err == errNamed {
			return named
		}
		return retry.Verdict{}
	})
	final := retry.Verdict{Class: retry.Final, Category: "not_found"}
	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"nil", nil, retry.Verdict{}},
		{"nobody knows it", errNobody, retry.Verdict{}},
		{"alone", &busyError{}, busy},
		{"wrapped", fmt.Errorf("x: %w", &busyError{}), busy},
		{"heard before its cause", &busyError{fs.ErrNotExist}, busy},
		{"heard after what wraps it", saysStatusCodeWraps{404, &busyError{}}, retry.Verdict{Class: retry.Final, Category: "http_404"}},
		{"what Classify knows", fs.ErrNotExist, final},
		{"a mark overrules it", retry.MarkFinal(&busyError{}), retry.Verdict{Class: retry.Final}},
		{"an inner policy gave up", &retry.Error{Stop: retry.StopAttempts, Err: &busyError{}}, retry.Verdict{Class: retry.Final, Category: "gave_up"}},
		{"better than a Final beside it", errors.Join(fs.ErrNotExist, &busyError{}), retry.Verdict{Class: retry.Retryable, Category: "busy"}},
		{"unknown, but named", fmt.Errorf("x: %w", errNamed), named},
		{"named, with a cause that is known", &busyError{errNamed}, busy},
		{"named beside an error that is known", errors.Join(errNamed, fs.ErrNotExist), final},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, classify(test.err), test.name)
	}
	reversed := errors.Join(&busyError{}, fs.ErrNotExist)
	assert.Equal(t, retry.Retryable, classify(reversed).Class, "in any order")
	assert.Equal(t, final, retry.Extend(nil)(fs.ErrNotExist))
}

// saysStatusCodeWraps names a status and has a cause.
type saysStatusCodeWraps struct {
	status int
	cause  error
}

func (saysStatusCodeWraps) Error() string     { return "status" }
func (e saysStatusCodeWraps) StatusCode() int { return e.status }
func (e saysStatusCodeWraps) Unwrap() error   { return e.cause }

func TestChain(t *testing.T) {
	t.Parallel()
	asked := 0
	opinion := func(v retry.Verdict) retry.Classifier {
		return func(error) retry.Verdict { asked++; return v }
	}
	silent := opinion(retry.Verdict{})
	tests := []struct {
		name  string
		chain []retry.Classifier
		want  retry.Verdict
		asked int
	}{
		{"none", nil, retry.Verdict{}, 0},
		{"nil", []retry.Classifier{nil, nil}, retry.Verdict{}, 0},
		{"all abstain", []retry.Classifier{silent, silent}, retry.Verdict{}, 2},
		{"first opinion", []retry.Classifier{opinion(wantFinal("a")), opinion(mayRetry("b"))}, wantFinal("a"), 1},
		{"after an abstention", []retry.Classifier{silent, nil, opinion(mayRetry("b"))}, mayRetry("b"), 2},
		{"a category is an opinion", []retry.Classifier{
			opinion(retry.Verdict{Category: "a"}), opinion(wantFinal("b")),
		}, retry.Verdict{Category: "a"}, 1},
		{"a hint is an opinion", []retry.Classifier{
			opinion(retry.Verdict{After: 1}), opinion(wantFinal("b")),
		}, retry.Verdict{After: 1}, 1},
		{"chains nest", []retry.Classifier{
			retry.Chain(silent, silent), retry.Chain(silent, opinion(wantFinal("a"))),
		}, wantFinal("a"), 4},
	}
	for _, tt := range tests { // in order: they share the counter
		asked = 0
		assert.Equal(t, tt.want, retry.Chain(tt.chain...)(errNobody), tt.name)
		assert.Equal(t, tt.asked, asked, tt.name)
	}
}

// slicedError cannot be compared.
type slicedError []string

func (slicedError) Error() string { return "incomparable" }

// TestOn has a part of T-27, the errors that cannot be compared.
func TestOn(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	tests := []struct {
		name    string
		class   retry.Class
		targets []error
		err     error
		want    retry.Verdict
	}{
		{"itself", retry.Final, []error{errNobody}, errNobody, wantFinal("")},
		{"wrapped", retry.Retryable, []error{errNobody}, fmt.Errorf("x: %w", errNobody), mayRetry("")},
		{"joined", retry.RateLimited, []error{errNobody}, errors.Join(other, errNobody), mayLimit("")},
		{"second target", retry.Final, []error{errNobody, other}, other, wantFinal("")},
		{"by Is", retry.Retryable, []error{fs.ErrNotExist}, syscall.ENOENT, mayRetry("")},
		{"marked", retry.Final, []error{errNobody}, retry.MarkRetryable(errNobody), wantFinal("")},
		{"not it", retry.Final, []error{other}, errNobody, abstains},
		{"no targets", retry.Final, nil, errNobody, abstains},
		{"no error", retry.Final, []error{errNobody}, nil, abstains},
		{"unknown is an opinion", retry.Unknown, []error{errNobody}, errNobody, retry.Verdict{Category: "unknown"}},
		{"incomparable", retry.Final, []error{slicedError{}}, slicedError{}, abstains},
		{"incomparable target", retry.Final, []error{slicedError{}, errNobody}, errNobody, wantFinal("")},
		{"endless", retry.Final, []error{errNobody}, &endlessError{}, abstains},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, retry.On(tt.class, tt.targets...)(tt.err))
		})
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
		{"no class", retry.Mark(fs.ErrNotExist, retry.Verdict{}), abstains},
		{"a category alone", retry.Mark(fs.ErrNotExist, retry.Verdict{Category: "mine"}), retry.Verdict{Category: "mine"}},
		{"an impossible class", retry.Mark(fs.ErrNotExist, retry.Verdict{Class: 200}), abstains},

		{"outermost of two", again(final(errNobody)), canRetry("")},
		{"outermost of two, other way", final(again(errNobody)), wantFinal("")},
		{"outermost of two with an error between", again(wrap(final(errNobody))), canRetry("")},
		{"outermost of three", final(wrap(again(wrap(final(errNobody))))), wantFinal("")},
		{"unknown around final", retry.Mark(final(errNobody), retry.Verdict{}), abstains},
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

// TestMarksBindClassifiers is T-20: no classifier overrules a mark, or is asked
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

// TestMarksOfNothing is T-10.
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

// gaveUp is the error of an inner policy.
func gaveUp(stop retry.StopReason, err error) *retry.Error {
	return &retry.Error{Attempts: 3, Stop: stop, Err: err}
}

var everyStop = map[retry.StopReason]retry.Verdict{
	retry.StopNone:         wantFinal("gave_up"),
	retry.StopFinal:        wantFinal("gave_up"),
	retry.StopAttempts:     wantFinal("gave_up"),
	retry.StopElapsed:      wantFinal("gave_up"),
	retry.StopBudget:       wantFinal("gave_up"),
	retry.StopMaybeApplied: wantFinal("gave_up"),
	retry.StopDeadline:     mayRetry("gave_up"),
	retry.StopCanceled:     mayRetry("gave_up"),
	retry.StopRetryAfter:   mayLimit("gave_up"),
}

// TestInnerPolicies is a part of T-28: policies within policies do not multiply
// their attempts, whatever the inner one failed with.
func TestInnerPolicies(t *testing.T) {
	t.Parallel()
	for stop, want := range everyStop {
		for _, cause := range []error{nil, errNobody, syscall.ECONNREFUSED, fs.ErrNotExist, retry.MarkRetryable(errNobody)} {
			assertClassified(t, want, gaveUp(stop, cause))
		}
		// The outermost decides.
		assertClassified(t, want, gaveUp(stop, gaveUp(retry.StopAttempts, errNobody)))
		assertClassified(t, want, gaveUp(stop, gaveUp(retry.StopCanceled, errNobody)))
		assertClassified(t, want, overRetryableError{says(true), gaveUp(stop, errNobody)})
	}
	late := gaveUp(retry.StopRetryAfter, errNobody)
	late.RetryAfter = aWhile
	assertClassified(t, hinted(mayLimit("gave_up")), late)
	late.RetryAfter = -aWhile
	assertClassified(t, mayLimit("gave_up"), late)

	// Of several the better chance counts, but a refusal is one.
	assertClassified(t, wantFinal("gave_up"),
		errors.Join(gaveUp(retry.StopCanceled, errNobody), gaveUp(retry.StopAttempts, errNobody)))
	assertClassified(t, mayLimit("gave_up"),
		errors.Join(gaveUp(retry.StopCanceled, errNobody), gaveUp(retry.StopRetryAfter, errNobody)))

	itself := gaveUp(retry.StopAttempts, nil)
	itself.Err = itself
	assertVerdict(t, wantFinal("gave_up"), retry.Classify(itself)) // its text would have no end
	assertClassified(t, abstains, (*retry.Error)(nil))
}

func TestThroughGiveUp(t *testing.T) {
	t.Parallel()
	const attempts = retry.StopAttempts
	refused, missing := syscall.ECONNREFUSED, fs.ErrNotExist
	late := gaveUp(retry.StopRetryAfter, missing)
	late.RetryAfter = aWhile
	canceled := gaveUp(retry.StopCanceled, refused)
	canceled.Cause = context.Canceled

	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"no inner policy", refused, abstains},
		{"no inner policy, marked", retry.MarkFinal(refused), abstains},
		{"nil inner policy", (*retry.Error)(nil), abstains},
		{"cause", gaveUp(attempts, refused), canRetry("conn_refused")},
		{"final cause", gaveUp(retry.StopBudget, missing), wantFinal("not_found")},
		{"unknown cause", gaveUp(attempts, errNobody), retry.Verdict{Category: "gave_up"}},
		{"marked cause", gaveUp(attempts, retry.MarkFinal(refused)), wantFinal("")},
		{"limited cause", gaveUp(attempts, retry.MarkRateLimited(errNobody, aWhile)), hinted(canLimit(""))},
		{"long hint", late, hinted(mayLimit("gave_up"))},
		{"canceled with a cause", canceled, canRetry("conn_refused")},
		{"canceled before the start", gaveUp(retry.StopCanceled, nil), mayRetry("gave_up")},
		{"deadline before the start", gaveUp(retry.StopDeadline, nil), mayRetry("gave_up")},
		{"no attempt", gaveUp(attempts, nil), wantFinal("gave_up")},
		{"wrapped", fmt.Errorf("x: %w", gaveUp(attempts, refused)), canRetry("conn_refused")},
		{"nested", gaveUp(attempts, fmt.Errorf("x: %w", gaveUp(attempts, refused))), canRetry("conn_refused")},
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
		})
	}

	t.Run("as a classifier", func(t *testing.T) {
		t.Parallel()
		p := &retry.Policy{Classifier: retry.ThroughGiveUp}
		assert.Equal(t, canRetry("conn_refused"), p.Classify(gaveUp(attempts, refused)))
		assert.Equal(t, canRetry("conn_refused"), p.Classify(refused))
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

func TestPolicyClassifyOrder(t *testing.T) {
	t.Parallel()
	mine := &retry.Policy{Classifier: func(error) retry.Verdict { return mayLimit("mine") }}
	shy := &retry.Policy{Classifier: func(error) retry.Verdict { return retry.Verdict{} }}
	tests := []struct {
		name      string
		err       error
		mine, shy retry.Verdict
	}{
		{"mark", retry.MarkFinal(errNobody), wantFinal(""), wantFinal("")},
		{"inner policy", gaveUp(retry.StopAttempts, errNobody), mayLimit("mine"), wantFinal("gave_up")},
		{"known error", fs.ErrNotExist, mayLimit("mine"), wantFinal("not_found")},
		{"unknown error", errNobody, mayLimit("mine"), abstains},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.mine, mine.Classify(tt.err), tt.name)
		assert.Equal(t, tt.shy, shy.Classify(tt.err), tt.name)
	}

	// A bug in a Classifier is not hidden.
	broken := &retry.Policy{Classifier: func(error) retry.Verdict { panic("bug") }}
	assert.PanicsWithValue(t, "bug", func() { broken.Classify(errNobody) })
}
