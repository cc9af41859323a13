package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// A policy with zeros, or with nonsense, makes three attempts with waits: neither none nor a busy loop.
func TestZeroPolicy(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for p, valid := range map[*retry.Policy]bool{
		nil: true, {}: true, {MaxAttempts: -1}: false, {Backoff: retry.Schedule{}}: true, {Backoff: retry.Constant(-1)}: false,
		{Backoff: retry.Exponential{Initial: -1}, MaxDelay: -1}: false, {Jitter: retry.PlusMinus(-1)}: false,
		{Backoff: retry.Exponential{Multiplier: nan}, Jitter: retry.Proportional(nan)}:          false,
		{MaxElapsed: -1, AttemptTimeout: -1, MaxRetryAfter: -1, FreeRateLimits: -1}:             false,
		{Budget: &retry.Budget{}, Observer: retry.Observers(nil), Classifier: retry.Chain(nil)}: true,
	} {
		assert.Equal(t, valid, p.Validate() == nil, "%v", p)
		c := play(t, p, always(testkit.ErrPeer))
		assert.Equal(t, 3, c.calls, "%v", p)
		assert.Positive(t, c.took)
		assert.LessOrEqual(t, c.took, 6*time.Second)
	}
	assert.Error(t, new(retry.Policy).Execute(t.Context(), nil))
	var none context.Context
	fn, calls := testkit.Failing(nil)
	assert.NoError(t, (&retry.Policy{AttemptTimeout: time.Hour}).Execute(none, fn))
	assert.Equal(t, 1, *calls)
}

// Errors that == panics on do no harm.
func TestIncomparableErrors(t *testing.T) {
	t.Parallel()
	bad, other := list{"x"}, errors.New("other")
	on := retry.On(retry.Final, bad, other)
	assert.Zero(t, on(bad), "what cannot be compared is not found")
	assert.Equal(t, retry.Final, on(errors.Join(bad, other)).Class, "targets after it are")
	p := exact(0)
	p.Classifier = on
	c := play(t, p, func(_ context.Context, attempt int, end context.CancelCauseFunc) error {
		if attempt == 3 {
			end(bad)
		}
		return bad
	})
	assert.Equal(t, error(bad), c.Err)
	assert.Equal(t, error(bad), c.Cause)
	assert.NotErrorIs(t, c.err, other)
}

// A limit of 1 for a kind of failure is no retry, and 0 is not set.
func TestLimitOneIsNoRetry(t *testing.T) {
	t.Parallel()
	for limit, attempts := range map[int]int{1: 1, 0: 5, -1: 5, 7: 7} {
		for _, kind := range []string{"retryable", "busy"} {
			p := retry.Policy{MaxAttempts: 5, Overrides: map[string]retry.Override{kind: {MaxAttempts: limit}}}
			n, d := 1, retry.Decision{Retry: true}
			for ; d.Retry; n++ {
				d = p.Decide(d.State, retry.Verdict{Class: retry.Retryable, Category: "busy"}, epoch)
			}
			assert.Equal(t, attempts, n-1, "%s: %d", kind, limit)
			assert.Equal(t, attempts, d.Limit)
		}
	}
	err := json.Unmarshal([]byte(`{"overrides":{"busy":{"max_attempts":0}}}`), new(retry.Policy))
	assert.ErrorContains(t, err, "overrides.busy.max_attempts")
}

// The longest wait is not the last one.
func TestCapDoesNotEndRetrying(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{MaxAttempts: 50, Backoff: retry.Exponential{Initial: time.Second}, MaxDelay: 4 * time.Second, Jitter: retry.NoJitter}
	c := play(t, p, always(testkit.ErrPeer))
	assert.Equal(t, 50, c.calls)
	assert.Equal(t, (1+2+47*4)*time.Second, c.took)
}

// A number of attempts is not clamped, and one that cannot be is an error.
func TestAttemptsAreNotClamped(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5, 6, 1_000_000, math.MaxInt - 1} {
		p := retry.Policy{MaxAttempts: n}
		assert.NoError(t, p.Validate())
		d := p.Next(retry.State{Failures: n - 1}, testkit.ErrPeer, epoch)
		assert.Equal(t, retry.StopAttempts, d.Stop)
		assert.Equal(t, n, d.Limit)
		assert.Equal(t, n > 1, p.Next(retry.State{Failures: n - 2}, testkit.ErrPeer, epoch).Retry)
	}
	for _, n := range []string{"0", "-1", "1.5", "1e30", "9223372036854775808", `"5"`, "true", "[]"} {
		q := retry.Policy{MaxAttempts: 7}
		assert.ErrorContains(t, json.Unmarshal([]byte(`{"max_attempts":`+n+`}`), &q), "max_attempts", n)
		assert.Equal(t, 7, q.MaxAttempts, "a policy with faults is not taken over")
	}
}

// Every way to switch something off does that, in a literal and in JSON.
func TestDisableValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		calls int
		took  time.Duration
	}{
		`{"backoff":{"constant":0}}`: {3, 0}, `{"jitter":"none"}`: {3, 6 * time.Second},
		`{"jitter":{"proportional":0}}`: {3, 6 * time.Second}, `{"jitter":{"plus_minus":0}}`: {3, 6 * time.Second},
		`{"backoff":{"schedule":[0,"8s"]},"jitter":"none"}`: {3, 8 * time.Second}, `{"max_attempts":1}`: {1, 0}, `{"max_retries":0}`: {1, 0},
		`{"backoff":{"exponential":{"multiplier":1}},"jitter":"none"}`:                                           {3, 4 * time.Second},
		`{"max_attempts":"unlimited","backoff":{"constant":0}}`:                                                  {1000, 0},
		`{"max_elapsed":0,"attempt_timeout":0,"backoff":{"constant":"1h"},"jitter":"none","free_rate_limits":0}`: {3, 2 * time.Hour},
	} {
		var p retry.Policy
		assert.NoError(t, json.Unmarshal([]byte(text), &p), text)
		c := play(t, &p, func(_ context.Context, attempt int, _ context.CancelCauseFunc) error {
			return map[bool]error{false: testkit.ErrPeer, true: fs.ErrNotExist}[attempt == 1000]
		})
		assert.Equal(t, want.calls, c.calls, text)
		assert.Equal(t, want.took, c.took, text)
	}
	assert.Equal(t, 1, play(t, &retry.Policy{Budget: &retry.Budget{Reserve: retry.NoReserve}}, always(testkit.ErrPeer)).calls)
}

// The order of fields, of marks and wrapping, and of errors that are joined means nothing.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	fields := []string{`"max_attempts":7`, `"max_delay":"10s"`, `"jitter":"equal"`, `"backoff":{"linear":{"initial":"1s","step":"3s"}}`}
	var want, got retry.Policy
	assert.NoError(t, json.Unmarshal([]byte("{"+strings.Join(fields, ",")+"}"), &want))
	for i := range fields {
		fields[0], fields[i] = fields[i], fields[0]
		assert.NoError(t, json.Unmarshal([]byte("{"+strings.Join(fields, ",")+"}"), &got))
		assert.Equal(t, want, got)
	}
	inside := fmt.Errorf("step 2: %w", retry.MarkFinal(testkit.ErrPeer))
	assert.Equal(t, retry.Classify(retry.MarkFinal(inside)), retry.Classify(inside))
	errs := []error{testkit.ErrPeer, inside, retry.MarkRetryable(testkit.ErrPeer), context.Canceled, context.DeadlineExceeded, fs.ErrNotExist, &retry.Error{Stop: retry.StopAttempts}}
	for _, a := range errs {
		for _, b := range errs {
			assert.Equal(t, retry.Classify(errors.Join(a, b)), retry.Classify(errors.Join(b, a)), "%v, %v", a, b)
		}
	}
}

// No text of an error says what it is.
func TestTextIsNotRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"read tcp 10.0.0.1:1->10.0.0.2:2: read: connection reset by peer", "dial tcp: connect: connection refused", "write: broken pipe",
		"i/o timeout", "context deadline exceeded", "context canceled", "EOF", "unexpected EOF", "x509: certificate signed by unknown authority",
		"no such host", "429: Too Many Requests", "503 Service Unavailable", "Retry-After: 120", "rate limit exceeded", "ThrottlingException: Rate exceeded",
		"rpc error: code = Unavailable desc = try again", "permanent", "pq: deadlock detected", "40001", "database is locked", "retry: worker lost", "",
	} {
		for _, err := range []error{errors.New(text), fmt.Errorf("call: %w", errors.New(text)), errors.Join(errors.New(text), testkit.ErrPeer)} {
			assert.Zero(t, retry.Classify(err), "%q", err)
			assert.Zero(t, retry.ThroughGiveUp(err), "%q", err)
			assert.Zero(t, retry.On(retry.Final, context.Canceled, errors.New(text))(err), "%q", err)
		}
	}
}
