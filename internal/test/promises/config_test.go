package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// repository is the tree of the root module.
var repository = os.DirFS("../../..")

// T-15.
func TestZeroPolicy(t *testing.T) {
	t.Parallel()
	threeAttempts := []struct {
		name  string
		p     *retry.Policy
		valid bool
	}{
		{"zero", &retry.Policy{}, true},
		{"nil", nil, true},
		{"0 attempts", &retry.Policy{MaxAttempts: 0}, true},
		{"-1 attempts", &retry.Policy{MaxAttempts: -1}, false},
		{"fewest attempts", &retry.Policy{MaxAttempts: math.MinInt}, false},
		{"zero backoff", &retry.Policy{Backoff: retry.Exponential{}}, true},
		{"no schedule", &retry.Policy{Backoff: retry.Schedule{}}, true},
		{"negative delays", &retry.Policy{Backoff: retry.Exponential{Initial: -1}, MaxDelay: -1}, false},
		{"negative constant", &retry.Policy{Backoff: retry.Constant(-1)}, false},
		{"negative jitter", &retry.Policy{Jitter: retry.PlusMinus(-1)}, false},
		{"NaN", &retry.Policy{Backoff: retry.Exponential{Multiplier: math.NaN()}, Jitter: retry.Proportional(math.NaN())}, false},
		{"negative limits", &retry.Policy{MaxElapsed: -1, AttemptTimeout: -1, MaxRetryAfter: -1, FreeRateLimits: -1}, false},
		{"zero budget", &retry.Policy{Budget: &retry.Budget{}}, true},
		{"no observers", &retry.Policy{Observer: retry.Observers(nil, nil)}, true},
		{"no classifiers", &retry.Policy{Classifier: retry.Chain(nil, nil)}, true},
	}
	for _, tt := range threeAttempts {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.valid, tt.p.Validate() == nil)
			synctest.Test(t, func(t *testing.T) {
				start, calls := time.Now(), 0
				_, err := retry.Do(t.Context(), tt.p, func(context.Context) (int, error) {
					calls++
					return calls, testkit.ErrPeer
				})
				assert.ErrorIs(t, err, retry.StopAttempts)
				assert.Equal(t, 3, calls)
				waited := time.Since(start)
				assert.Positive(t, waited)
				assert.LessOrEqual(t, waited, 6*time.Second)
			})
		})
	}

	t.Run("no busy loop without limits", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			calls := 0
			p := &retry.Policy{MaxAttempts: retry.Unlimited}
			require.Error(t, p.Execute(ctx, func(context.Context) error { calls++; return testkit.ErrPeer }))
			// 15 seconds on average at the cap.
			assert.Greater(t, calls, 120)
			assert.Less(t, calls, 480)
		})
	})
	t.Run("success", func(t *testing.T) {
		t.Parallel()
		calls := 0
		require.NoError(t, new(retry.Policy).Execute(t.Context(), func(context.Context) error { calls++; return nil }))
		assert.Equal(t, 1, calls)
	})
	t.Run("nil context", func(t *testing.T) {
		t.Parallel()
		for _, p := range []*retry.Policy{nil, {MaxElapsed: time.Hour}, {AttemptTimeout: time.Hour}} {
			var none context.Context
			calls := 0
			err := p.Execute(none, func(ctx context.Context) error {
				calls++
				assert.NotNil(t, ctx)
				return retry.MarkFinal(testkit.ErrPeer)
			})
			assert.ErrorIs(t, err, testkit.ErrPeer)
			assert.Equal(t, 1, calls)
		}
	})
	t.Run("nil function", func(t *testing.T) {
		t.Parallel()
		assert.Error(t, new(retry.Policy).Execute(t.Context(), nil))
		_, err := retry.Do[int](t.Context(), nil, nil)
		assert.Error(t, err)
	})
}

// peerIncomparable is an error that == panics on.
type peerIncomparable []string

func (e peerIncomparable) Error() string { return "not comparable" }

// peerBox can be compared as far as its type tells, but not with this content.
type peerBox struct{ v any }

func (e peerBox) Error() string { return fmt.Sprint(e.v) }

// T-27.
func TestIncomparableErrors(t *testing.T) {
	t.Parallel()
	for _, bad := range []error{peerIncomparable{"a"}, peerBox{[]int{1}}} {
		t.Run(fmt.Sprintf("%T", bad), func(t *testing.T) {
			t.Parallel()
			other := errors.New("other")
			on := retry.On(retry.Final, bad, other)
			assert.Zero(t, on(bad), "what cannot be compared is not found")
			assert.Zero(t, on(fmt.Errorf("wrapped: %w", bad)))
			assert.Equal(t, retry.Verdict{Class: retry.Final}, on(other), "targets after it are")
			assert.Equal(t, retry.Verdict{Class: retry.Final}, on(errors.Join(bad, other)))

			assert.Zero(t, retry.Classify(bad))
			assert.Zero(t, retry.Classify(errors.Join(bad, bad)))
			assert.Equal(t, retry.Retryable, retry.Classify(retry.MarkRetryable(bad)).Class)

			calls := 0
			p := retry.Policy{Backoff: retry.Constant(0), Classifier: on, Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 4}}}
			err := p.Execute(t.Context(), func(context.Context) error { calls++; return bad })
			assert.Equal(t, 4, calls)
			assert.Equal(t, bad, testkit.As[*retry.Error](t, err).Err)
			assert.NotErrorIs(t, err, other)
			assert.ErrorIs(t, err, retry.StopAttempts)

			ctx, cancel := context.WithCancelCause(t.Context())
			err = p.Execute(ctx, func(context.Context) error { cancel(bad); return bad })
			assert.Equal(t, bad, testkit.As[*retry.Error](t, err).Cause)
			assert.ErrorIs(t, err, context.Canceled)
			assert.NotEmpty(t, err.Error())
		})
	}
}

// T-48.
func TestLimitOneIsNoRetry(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	again := retry.Verdict{Class: retry.Retryable, Category: "busy"}
	tests := []struct {
		name      string
		overrides map[string]retry.Override
		failures  int // that are retried
	}{
		{"none", nil, 4},
		{"1 for a class", map[string]retry.Override{"retryable": {MaxAttempts: 1}}, 0},
		{"1 for a category", map[string]retry.Override{"busy": {MaxAttempts: 1}}, 0},
		{"0 for a class is not set", map[string]retry.Override{"retryable": {MaxAttempts: 0}}, 4},
		{"0 for a category is not set", map[string]retry.Override{"busy": {}}, 4},
		{"0 for a category leaves the class", map[string]retry.Override{"busy": {}, "retryable": {MaxAttempts: 2}}, 1},
		{"below 0 is not set", map[string]retry.Override{"retryable": {MaxAttempts: -1}}, 4},
		{"more than the policy", map[string]retry.Override{"retryable": {MaxAttempts: 7}}, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := retry.Policy{MaxAttempts: 5, Overrides: tt.overrides}
			retried := 0
			d := p.Decide(retry.State{}, again, now)
			for ; d.Retry; d = p.Decide(d.State, again, now) {
				retried++
				require.Less(t, retried, 100)
			}
			assert.Equal(t, tt.failures, retried)
			assert.Equal(t, retry.StopAttempts, d.Stop)
			assert.Equal(t, tt.failures+1, d.Limit)
		})
	}
	p := retry.Policy{Overrides: map[string]retry.Override{"retryable": {MaxAttempts: -1}}}
	assert.ErrorContains(t, p.Validate(), "overrides.retryable.max_attempts")
	for _, n := range []string{"0", "-1"} {
		err := json.Unmarshal([]byte(`{"overrides":{"retryable":{"max_attempts":`+n+`}}}`), new(retry.Policy))
		assert.ErrorContains(t, err, "overrides.retryable.max_attempts")
		err = json.Unmarshal([]byte(`{"max_attempts":`+n+`}`), new(retry.Policy))
		assert.ErrorContains(t, err, "max_attempts")
	}
}

// T-53.
func TestCapDoesNotEndRetrying(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{50, retry.Unlimited} {
		p := retry.Policy{
			MaxAttempts: attempts,
			Backoff:     retry.Exponential{Initial: time.Second},
			MaxDelay:    4 * time.Second,
			Jitter:      retry.NoJitter,
		}
		synctest.Test(t, func(t *testing.T) {
			start, calls := time.Now(), 0
			err := p.Execute(t.Context(), func(context.Context) error {
				if calls++; calls == 50 {
					return nil
				}
				return testkit.ErrPeer
			})
			require.NoError(t, err)
			assert.Equal(t, 50, calls)
			assert.Equal(t, (1+2+47*4)*time.Second, time.Since(start))
		})
	}
}

// T-63.
func TestAttemptsAreNotClamped(t *testing.T) {
	t.Parallel()
	calls := 0
	p := retry.Policy{MaxAttempts: 10_000, Backoff: retry.Constant(0)}
	err := p.Execute(t.Context(), func(context.Context) error { calls++; return testkit.ErrPeer })
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Equal(t, 10_000, calls)

	for _, n := range []int{1, 2, 5, 6, 100, 1_000_000, math.MaxInt32, math.MaxInt - 1} {
		p := retry.Policy{MaxAttempts: n}
		require.NoError(t, p.Validate())
		last := p.Next(retry.State{Failures: n - 1}, testkit.ErrPeer, time.Unix(0, 0))
		assert.Equal(t, retry.StopAttempts, last.Stop, n)
		assert.Equal(t, n, last.Limit)
		if n > 1 {
			assert.True(t, p.Next(retry.State{Failures: n - 2}, testkit.ErrPeer, time.Unix(0, 0)).Retry, n)
		}
		b, err := json.Marshal(p)
		require.NoError(t, err)
		var q retry.Policy
		require.NoError(t, json.Unmarshal(b, &q))
		assert.Equal(t, n, q.MaxAttempts)
	}
	unlimited := retry.Policy{MaxAttempts: retry.Unlimited}
	assert.True(t, unlimited.Next(retry.State{Failures: 1_000_000_000}, testkit.ErrPeer, time.Unix(0, 0)).Retry)

	for _, n := range []int{-1, math.MinInt} {
		p := retry.Policy{MaxAttempts: n}
		assert.ErrorContains(t, p.Validate(), "max_attempts")
	}
	for _, n := range []string{"0", "-1", "-5", "1.5", "1e30", "9223372036854775808", `"5"`, "true", "[]"} {
		q := retry.Policy{MaxAttempts: 7}
		assert.ErrorContains(t, json.Unmarshal([]byte(`{"max_attempts":`+n+`}`), &q), "max_attempts", n)
		assert.Equal(t, 7, q.MaxAttempts, "a policy with faults is not taken over")
	}
}

// T-64.
func TestDisableValues(t *testing.T) {
	t.Parallel()
	// run executes a policy on an operation that always fails, and returns the
	// calls and the time that they took.
	run := func(t *testing.T, p *retry.Policy) (calls int, took time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			require.Error(t, p.Execute(t.Context(), func(context.Context) error {
				if calls++; calls == 1000 {
					return retry.MarkFinal(testkit.ErrPeer)
				}
				return testkit.ErrPeer
			}))
			took = time.Since(start)
		})
		return calls, took
	}
	tests := []struct {
		name  string
		json  string
		p     retry.Policy
		calls int
		took  time.Duration
	}{
		{"no delay", `{"backoff":{"constant":0}}`, retry.Policy{Backoff: retry.Constant(0)}, 3, 0},
		{"no first delay", `{"backoff":{"schedule":[0,"8s"]},"jitter":"none"}`, retry.Policy{Backoff: retry.Schedule{0, 8 * time.Second}, Jitter: retry.NoJitter}, 3, 8 * time.Second},
		{"no jitter", `{"jitter":"none"}`, retry.Policy{Jitter: retry.NoJitter}, 3, 6 * time.Second},
		{"proportional 0", `{"jitter":{"proportional":0}}`, retry.Policy{Jitter: retry.Proportional(0)}, 3, 6 * time.Second},
		{"plus minus 0", `{"jitter":{"plus_minus":0}}`, retry.Policy{Jitter: retry.PlusMinus(0)}, 3, 6 * time.Second},
		{"no growth", `{"backoff":{"exponential":{"multiplier":1}},"jitter":"none"}`, retry.Policy{Backoff: retry.Exponential{Multiplier: 1}, Jitter: retry.NoJitter}, 3, 4 * time.Second},
		{"no retry", `{"max_attempts":1}`, retry.Policy{MaxAttempts: 1}, 1, 0},
		{"no retries", `{"max_retries":0}`, retry.Policy{MaxAttempts: 1}, 1, 0},
		{"no limit of attempts", `{"max_attempts":"unlimited","backoff":{"constant":"1s"},"jitter":"none"}`, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter}, 1000, 999 * time.Second},
		{"no limits of time", `{"max_elapsed":0,"attempt_timeout":0,"backoff":{"constant":"1h"},"jitter":"none"}`, retry.Policy{Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter}, 3, 2 * time.Hour},
		{"no free rate limits", `{"free_rate_limits":0,"jitter":"none"}`, retry.Policy{Jitter: retry.NoJitter}, 3, 6 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var q retry.Policy
			require.NoError(t, json.Unmarshal([]byte(tt.json), &q))
			assert.Equal(t, tt.p, q)
			require.NoError(t, tt.p.Validate())
			calls, took := run(t, &tt.p)
			assert.Equal(t, tt.calls, calls)
			assert.Equal(t, tt.took, took)
		})
	}

	t.Run("no budget", func(t *testing.T) {
		t.Parallel()
		calls, _ := run(t, &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(0)})
		assert.Equal(t, 1000, calls)
	})
	t.Run("no reserve", func(t *testing.T) {
		t.Parallel()
		calls, took := run(t, &retry.Policy{Budget: &retry.Budget{Reserve: retry.NoReserve}})
		assert.Equal(t, 1, calls)
		assert.Zero(t, took)
	})
	t.Run("no attempt timeout", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, new(retry.Policy).Execute(context.Background(), func(ctx context.Context) error {
			_, ok := ctx.Deadline()
			assert.False(t, ok)
			assert.Nil(t, ctx.Done())
			return nil
		}))
	})
	t.Run("no free rate limits", func(t *testing.T) {
		t.Parallel()
		d := new(retry.Policy).Next(retry.State{}, retry.MarkRateLimited(testkit.ErrPeer, time.Second), time.Unix(0, 0))
		assert.True(t, d.Counted)
	})
	t.Run("zeros that do not mean zero are refused", func(t *testing.T) {
		t.Parallel()
		for _, field := range []string{
			`"max_attempts":0`, `"max_delay":0`, `"max_retry_after":0`,
			`"backoff":{"exponential":{"initial":0}}`, `"backoff":{"exponential":{"multiplier":0}}`,
			`"backoff":{"linear":{"initial":"0s"}}`, `"backoff":{"linear":{"step":0}}`, `"backoff":{"fibonacci":{"initial":0}}`,
			`"backoff":{"constant":-1}`, `"max_elapsed":-1`, `"attempt_timeout":"-1s"`,
		} {
			assert.Error(t, json.Unmarshal([]byte("{"+field+"}"), new(retry.Policy)), field)
		}
	})
}

// T-13.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	// permute calls use with every order of fields in which two are swapped.
	permute := func(fields []string, use func(json string)) {
		for i := range fields {
			for j := range i + 1 {
				swapped := append([]string{}, fields...)
				swapped[i], swapped[j] = swapped[j], swapped[i]
				use("{" + strings.Join(swapped, ",") + "}")
			}
		}
	}

	t.Run("keys", func(t *testing.T) {
		t.Parallel()
		want := retry.Policy{
			Name: "n", MaxAttempts: 7, MaxElapsed: time.Hour, AttemptTimeout: time.Minute,
			Backoff: retry.Linear{Initial: time.Second, Step: 3 * time.Second}, MaxDelay: 10 * time.Second,
			Jitter: retry.EqualJitter, MaxRetryAfter: 2 * time.Minute, FreeRateLimits: 2, NonIdempotent: true,
			Overrides: map[string]retry.Override{
				"unknown": {MaxAttempts: 2, Jitter: retry.NoJitter},
				"timeout": {MaxDelay: 5 * time.Second},
			},
		}
		permute([]string{
			`"name":"n"`, `"max_attempts":7`, `"max_elapsed":"1h"`, `"attempt_timeout":"1m"`,
			`"backoff":{"linear":{"initial":"1s","step":"3s"}}`, `"max_delay":"10s"`, `"jitter":"equal"`,
			`"max_retry_after":"2m"`, `"free_rate_limits":2`, `"non_idempotent":true`,
			`"overrides":{"unknown":{"max_attempts":2,"jitter":"none"},"timeout":{"max_delay":"5s"}}`,
		}, func(text string) {
			var p retry.Policy
			require.NoError(t, json.Unmarshal([]byte(text), &p), text)
			require.Equal(t, want, p, text)
		})
	})
	t.Run("faults", func(t *testing.T) {
		t.Parallel()
		var want string
		permute([]string{
			`"max_retries":3`, `"max_attempts":3`, `"max_delay":"1s"`, `"max_elapsed":"x"`, `"nonsense":1`, `"jitter":"loud"`,
			`"backoff":{"exponential":{"initial":"1m","multiplier":0.5}}`,
			`"overrides":{"b":{"max_attempts":0},"a":{"max_delay":"-1s"},"c":3}`,
		}, func(text string) {
			err := json.Unmarshal([]byte(text), new(retry.Policy))
			require.Error(t, err)
			if want == "" {
				want = err.Error()
			}
			require.Equal(t, want, err.Error(), text)
		})
	})
	t.Run("marks and wrapping", func(t *testing.T) {
		t.Parallel()
		for _, mark := range []func(error) error{retry.MarkFinal, retry.MarkRetryable} {
			inside := fmt.Errorf("step 2: %w", mark(testkit.ErrPeer))
			outside := mark(fmt.Errorf("step 2: %w", testkit.ErrPeer))
			assert.Equal(t, retry.Classify(outside), retry.Classify(inside))
			assert.Equal(t, outside.Error(), inside.Error())
		}
	})
	t.Run("joins", func(t *testing.T) {
		t.Parallel()
		errs := []error{
			testkit.ErrPeer, retry.MarkFinal(testkit.ErrPeer), retry.MarkRetryable(testkit.ErrPeer), retry.MarkRateLimited(testkit.ErrPeer, time.Minute),
			context.Canceled, context.DeadlineExceeded, &retry.Error{Stop: retry.StopAttempts}, fs.ErrNotExist,
		}
		for _, a := range errs {
			for _, b := range errs {
				assert.Equal(t, retry.Classify(errors.Join(a, b)), retry.Classify(errors.Join(b, a)), "%v, %v", a, b)
			}
		}
	})
	t.Run("context inside or outside of the attempt timeout", func(t *testing.T) {
		t.Parallel()
		// However a policy is put together, a canceled caller ends it.
		for _, p := range []retry.Policy{
			{},
			{AttemptTimeout: time.Hour},
			{AttemptTimeout: time.Hour, MaxElapsed: time.Hour},
			{MaxElapsed: time.Hour, Budget: &retry.Budget{}},
			{Observer: retry.Observers(), Classifier: retry.On(retry.Retryable, testkit.ErrPeer)},
		} {
			p.Backoff = retry.Constant(0)
			p.MaxAttempts = retry.Unlimited
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			err := p.Execute(ctx, func(context.Context) error {
				if calls++; calls == 2 {
					cancel()
				}
				return testkit.ErrPeer
			})
			assert.Equal(t, 2, calls)
			assert.ErrorIs(t, err, context.Canceled)
		}
	})
}

// uncheckedExamples returns the names of the examples in a test file whose output
// is not checked, and the number of all of them.
func uncheckedExamples(t *testing.T, name string, src []byte) (unchecked []string, total int) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments)
	require.NoError(t, err)
	for _, e := range doc.Examples(file) {
		total++
		if e.Output == "" && !e.EmptyOutput {
			unchecked = append(unchecked, "Example"+e.Name)
		}
	}
	return unchecked, total
}

// T-45.
func TestExamplesAreChecked(t *testing.T) {
	t.Parallel()
	bad := "package p\nfunc ExampleA() {}\nfunc ExampleB() {\n// Output: x\n}\nfunc ExampleC() {\n// Output:\n}\n"
	unchecked, total := uncheckedExamples(t, "bad_test.go", []byte(bad))
	require.Equal(t, []string{"ExampleA"}, unchecked)
	require.Equal(t, 3, total)

	// The examples of nested modules are those that need another library, or a server of
	// it, to run.
	examples := 0
	require.NoError(t, fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
		case d.IsDir():
			_, err := fs.Stat(repository, path.Join(name, "go.mod"))
			if err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir
			}
		case strings.HasSuffix(name, "_test.go"):
			src, err := fs.ReadFile(repository, name)
			require.NoError(t, err)
			unchecked, n := uncheckedExamples(t, name, src)
			assert.Empty(t, unchecked, "%s: examples without // Output", name)
			examples += n
		}
		return nil
	}))
	assert.Positive(t, examples, "there are no examples")
}
