package retry_test

import (
	"context"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func TestExecuteNilFunc(t *testing.T) {
	t.Parallel()
	dead, kill := context.WithCancel(t.Context())
	kill()
	for name, p := range everyWay() {
		for _, ctx := range []context.Context{t.Context(), dead, nil} {
			assert.EqualError(t, p.Execute(ctx, nil), "retry: fn is nil", name)
			v, err := retry.Do[int](ctx, p, nil)
			assert.EqualError(t, err, "retry: fn is nil", name)
			assert.Zero(t, v)
		}
	}
	p := &retry.Policy{Observer: retry.ObserverFunc(func(context.Context, retry.Event) { t.Error("there was no call") })}
	assert.Error(t, p.Execute(t.Context(), nil))
}

// TestExecuteAllocsPerWait checks that a call makes one timer, whatever the
// number of its waits. Not parallel, because allocations are counted for the
// whole process.
func TestExecuteAllocsPerWait(t *testing.T) { //nolint:paralleltest // see above
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	allocs := func(attempts int) float64 {
		p := &retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(1), Jitter: retry.NoJitter}
		return testing.AllocsPerRun(50, func() { _ = p.Execute(ctx, fail) })
	}
	none, one, many := allocs(1), allocs(2), allocs(40)
	assert.Greater(t, one, none)
	assert.Equal(t, one, many)
}

// TestExecuteReadsOfTheClock checks how often the clock is read: at most once
// for a failure, and never when nothing needs the time.
func TestExecuteReadsOfTheClock(t *testing.T) {
	t.Parallel()
	observer := retry.ObserverFunc(func(context.Context, retry.Event) {})
	final := retry.On(retry.Final, errBoom)
	tests := []struct {
		name     string
		p        retry.Policy
		deadline bool
		success  int // reads of a call that succeeds at once
		later    int // of one that succeeds at its third attempt
		failure  int // of one that fails three times
	}{
		{"nothing", retry.Policy{}, false, 0, 0, 0},
		{"waits", retry.Policy{Backoff: retry.Constant(time.Second)}, false, 0, 0, 0},
		{"a final error", retry.Policy{Classifier: final}, false, 0, 0, 0},
		{"an attempt timeout", retry.Policy{AttemptTimeout: time.Hour}, false, 0, 0, 0},
		{"overrides", retry.Policy{Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 3}}}, false, 0, 0, 0},
		{"no limit of time", retry.Policy{MaxElapsed: -1}, false, 0, 0, 0},
		{"a deadline", retry.Policy{}, true, 0, 2, 3},
		{"a budget", retry.Policy{Budget: &retry.Budget{Reserve: 100}}, false, 1, 3, 3},
		{"a limit of time", retry.Policy{MaxElapsed: time.Hour}, false, 1, 3, 4},
		{"an observer", retry.Policy{Observer: observer}, false, 2, 4, 4},
		{"an observer of a final error", retry.Policy{Observer: observer, Classifier: final}, false, 2, 2, 2},
		{
			"everything",
			retry.Policy{MaxElapsed: time.Hour, Observer: observer, Budget: &retry.Budget{Reserve: 100}, AttemptTimeout: time.Hour},
			true, 2, 4, 4,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := func(succeeds int) int {
				c := newCountingClock()
				ctx := t.Context()
				if tt.deadline {
					ctx = untilContext{ctx, c.now.Add(time.Hour)}
				}
				p := tt.p
				p.Clock = c
				calls := 0
				_ = p.Execute(ctx, func(context.Context) error {
					if calls++; calls == succeeds {
						return nil
					}
					return errBoom
				})
				return c.reads
			}
			assert.Equal(t, tt.success, run(1))
			assert.Equal(t, tt.later, run(3))
			assert.Equal(t, tt.failure, run(0))
		})
	}
	t.Run("an end of the context", func(t *testing.T) {
		t.Parallel()
		for _, tt := range []struct {
			p    retry.Policy
			want int
		}{{retry.Policy{}, 0}, {retry.Policy{Budget: &retry.Budget{}}, 0}, {retry.Policy{MaxElapsed: 1}, 1}, {retry.Policy{Observer: observer}, 2}} {
			c := newCountingClock()
			p := tt.p
			p.Clock = c
			ctx, cancel := context.WithCancel(t.Context())
			assert.Error(t, p.Execute(ctx, failing(cancel)))
			assert.Equal(t, tt.want, c.reads)
		}
	})
}

// everyWay has policies that cover all paths through the loop: each needs other
// work around an attempt.
func everyWay() map[string]*retry.Policy {
	return map[string]*retry.Policy{
		"nil":             nil,
		"zero":            {},
		"unlimited":       {MaxAttempts: retry.Unlimited},
		"attempt timeout": {AttemptTimeout: time.Hour},
		"max elapsed":     {MaxElapsed: time.Hour},
		"observer":        {Observer: retry.ObserverFunc(func(context.Context, retry.Event) {})},
		"budget":          {Budget: &retry.Budget{}},
		"classifier":      {Classifier: retry.On(retry.Retryable, testkit.ErrPeer)},
		"no delay":        {Backoff: retry.Constant(0)},
	}
}

// TestNonIdempotentTrusts checks on what a repetition of an operation that is not
// idempotent may rest: a mark, or the policy's Classifier. What an errno or an answer says
// is about one step of the operation, and there may have been others before it.
func TestNonIdempotentTrusts(t *testing.T) {
	t.Parallel()
	for _, tt := range errnoRows {
		for _, errno := range tt.unix {
			for _, step := range []string{"dial", "write", "read"} {
				err := &net.OpError{Op: step, Net: "tcp", Err: os.NewSyscallError(step, errno)}
				assertRepeats(t, false, nil, err)
				assertRepeats(t, step == "dial" && tt.want.Class != retry.Final, retry.Classify, err)
				assertRepeats(t, true, nil, retry.MarkRetryable(err))
			}
		}
	}
	for _, answer := range []error{saysStatusCodeError(says(429)), saysSQLStateError(says("40001"))} {
		assertRepeats(t, false, nil, answer)
		assertRepeats(t, true, retry.Classify, answer)
	}
	assertRepeats(t, false, retry.On(retry.Retryable, errBoom), errBoom)
	proof := func(error) retry.Verdict { return canRetry("") }
	assertRepeats(t, true, proof, errBoom)
}

// assertRepeats checks whether an operation that is not idempotent is repeated after err,
// by every driver of the root package.
func assertRepeats(t *testing.T, want bool, classifier retry.Classifier, err error) {
	t.Helper()
	p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), NonIdempotent: true, Classifier: classifier}
	fn, calls := testkit.Failing(err)
	_ = p.Execute(context.Background(), fn)
	assert.Equal(t, want, *calls == 2, "Execute, %#v", err)

	assert.Equal(t, want, p.Next(retry.State{}, err, time.Time{}).Retry, "Next, %#v", err)
	assert.Equal(t, want, p.Decide(retry.State{}, p.Classify(err), time.Time{}).Retry, "Decide, %#v", err)

	call := retry.Call{Policy: p}
	require.True(t, call.Next(context.Background()))
	assert.Equal(t, want, call.End(err).Retry, "Call, %#v", err)

	if classifier == nil { // the driver of a protocol answers for what it says
		call = retry.Call{Policy: p, Protocol: func(error) retry.Verdict { return canRetry("") }}
		require.True(t, call.Next(context.Background()))
		assert.True(t, call.End(err).Retry, "a Call with Classify, %#v", err)
	}
}

func TestExecuteNilContext(t *testing.T) {
	t.Parallel()
	var none context.Context
	for name, p := range everyWay() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				v, err := retry.Do(none, p, func(ctx context.Context) (int, error) {
					if !assert.NotNil(t, ctx) {
						return 0, errFinalMark
					}
					assert.NoError(t, ctx.Err())
					if calls++; calls == 1 {
						return 0, errBoom
					}
					return calls, nil
				})
				assert.NoError(t, err)
				assert.Equal(t, 2, v)
			})
		})
	}
}

// TestExecuteFinalBeforeTheContextEnds checks that an error which was judged
// before the context ended does not change.
func TestExecuteFinalBeforeTheContextEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cancel func()) retry.Policy{
		"in the classifier": func(cancel func()) retry.Policy {
			return retry.Policy{Classifier: func(error) retry.Verdict { cancel(); return retry.Verdict{Class: retry.Final} }}
		},
		"in the observer": func(cancel func()) retry.Policy {
			return retry.Policy{
				Classifier: retry.On(retry.Final, errBoom),
				Observer:   retry.ObserverFunc(func(context.Context, retry.Event) { cancel() }),
			}
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		p := end(cancel)
		assert.Equal(t, errBoom, p.Execute(ctx, failing(nil)), name)
		assert.Error(t, ctx.Err(), name)
	}
}
