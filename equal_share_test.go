package retry_test

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// slow is an operation that fails after d, or when its context ends. It notes how long its
// attempts last.
func slow(clock *retrytest.Clock, d time.Duration, lasted *[]time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		began := clock.Now()
		_ = clock.AdvanceContext(ctx, d)
		*lasted = append(*lasted, clock.Now().Sub(began))
		return errBoom
	}
}

// How long the attempts may last, exactly, where each of them takes up to an hour.
func TestEqualShare(t *testing.T) {
	t.Parallel()
	const s, h = time.Second, time.Hour
	none := retry.Constant(0)
	tests := []struct {
		name     string
		policy   retry.Policy
		deadline time.Duration // of the context
		takes    time.Duration // an attempt that is not interrupted; 0 is an hour
		want     []time.Duration
	}{
		{"of Timeout", retry.Policy{Timeout: 9 * s, Backoff: none}, 0, 0, []time.Duration{3 * s, 3 * s, 3 * s}},
		{"of the deadline", retry.Policy{Backoff: none}, 9 * s, 0, []time.Duration{3 * s, 3 * s, 3 * s}},
		{"of Timeout, which is sooner", retry.Policy{Timeout: 6 * s, Backoff: none}, 9 * s, 0, []time.Duration{2 * s, 2 * s, 2 * s}},
		{"of the deadline, which is sooner", retry.Policy{Timeout: 9 * s, Backoff: none}, 6 * s, 0, []time.Duration{2 * s, 2 * s, 2 * s}},
		{"rounded down", retry.Policy{Timeout: 10, Backoff: none}, 0, 0, []time.Duration{3, 3, 4}},
		{"of less than a nanosecond each", retry.Policy{Timeout: 2, Backoff: none}, 0, 0, []time.Duration{1, 1}},
		{"the only attempt", retry.Policy{Timeout: 9 * s, MaxAttempts: 1}, 0, 0, []time.Duration{9 * s}},
		{"waits shorten the rest", retry.Policy{Timeout: 9 * s, Backoff: retry.Constant(s)}, 0, 0, []time.Duration{3 * s, 2500 * time.Millisecond, 1500 * time.Millisecond}},
		{"a wait is too long", retry.Policy{Timeout: 9 * s, Backoff: retry.Constant(6 * s)}, 0, 0, []time.Duration{3 * s}},
		{"an attempt leaves time to the others", retry.Policy{Timeout: 12 * s, Backoff: none}, 0, 4500 * time.Millisecond, []time.Duration{4 * s, 4 * s, 4 * s}},
		{"attempts in time", retry.Policy{Timeout: 12 * s, Backoff: none}, 0, s, []time.Duration{s, s, s}},
		{"no limit", retry.Policy{Backoff: none}, 0, 0, []time.Duration{h, h, h}},
		{"of unlimited attempts", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: none}, h + s, 0, []time.Duration{h, s}},
		{
			"more by an Override",
			retry.Policy{MaxAttempts: 2, Timeout: 16 * s, Backoff: none, Overrides: map[string]retry.Override{"timeout": {MaxAttempts: 4}}},
			0, 0,
			[]time.Duration{8 * s, 8 * s},
		},
		{
			"more by an Override, after failures in time",
			retry.Policy{MaxAttempts: 2, Timeout: 10 * s, Backoff: none, Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 4}}},
			0, s,
			[]time.Duration{s, s, s, s},
		},
		{
			"any number by an Override",
			retry.Policy{MaxAttempts: 1, Timeout: h + s, Backoff: none, Overrides: map[string]retry.Override{"unknown": {MaxAttempts: retry.Unlimited}}},
			0, 0,
			[]time.Duration{h, s},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clock := &retrytest.Clock{}
			p := tt.policy
			p.AttemptTimeout, p.Clock, p.Jitter = retry.EqualShare, clock, retry.NoJitter
			ctx := t.Context()
			if tt.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = clock.WithDeadline(ctx, clock.Now().Add(tt.deadline))
				defer cancel()
			}
			takes := tt.takes
			if takes == 0 {
				takes = h
			}
			var lasted []time.Duration
			require.Error(t, p.Execute(ctx, slow(clock, takes, &lasted)))
			assert.Equal(t, tt.want, lasted)
		})
	}
}

// All attempts take place, and together they take exactly the time left, whatever the
// numbers are, if there are no waits. With waits they never take more.
func TestEqualShareFits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(30, 6))
	for range 2000 {
		clock := &retrytest.Clock{}
		left := time.Duration(1 + r.Int64N(int64(time.Hour)))
		p := &retry.Policy{
			MaxAttempts: 1 + r.IntN(20), AttemptTimeout: retry.EqualShare, Backoff: retry.Constant(0), Clock: clock,
		}
		left = max(left, time.Duration(p.MaxAttempts))
		if waits := r.IntN(2) == 0; waits {
			p.Backoff = retry.Constant(r.Int64N(int64(left)))
		}
		ctx, cancel := clock.WithDeadline(t.Context(), clock.Now().Add(left))
		if r.IntN(2) == 0 {
			cancel()
			ctx, p.Timeout = t.Context(), left
		}
		start := clock.Now()
		var lasted []time.Duration
		require.Error(t, p.Execute(ctx, slow(clock, math.MaxInt64, &lasted)))
		cancel()
		took := clock.Now().Sub(start)
		if p.Backoff == retry.Constant(0) {
			require.Len(t, lasted, p.MaxAttempts, "%v of %v", p, left)
			require.Equal(t, left, took, "%v of %v", p, left)
			require.LessOrEqual(t, lasted[len(lasted)-1]-lasted[0], time.Duration(p.MaxAttempts), "nearly equal: %v of %v", p, left)
		}
		require.LessOrEqual(t, took, left, "%v of %v", p, left)
		require.NotContains(t, lasted, time.Duration(0), "%v of %v", p, left)
	}
}

// A stored job divides the Timeout that its State began, and no deadline of a worker.
func TestEqualShareOfAStoredJob(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, time.Minute} {
		clock := retrytest.NewClock(firstAttempt.Add(20 * time.Second))
		p := &retry.Policy{AttemptTimeout: retry.EqualShare, Timeout: timeout, Clock: clock}
		ctx, cancel := clock.WithDeadline(t.Context(), clock.Now().Add(time.Hour))
		defer cancel()
		var lasted []time.Duration
		job := retryjob.Stored{Policy: p, State: retry.State{Failures: 1, First: firstAttempt}}
		assert.Equal(t, retryjob.Again, job.Attempt(ctx, slow(clock, 30*time.Minute, &lasted)))
		want := 30 * time.Minute
		if timeout > 0 {
			want = 20 * time.Second // 40 s and two attempts
		}
		assert.Equal(t, []time.Duration{want}, lasted)
	}
}

func TestEqualShareAsData(t *testing.T) {
	t.Parallel()
	p := retry.Policy{AttemptTimeout: retry.EqualShare, Timeout: time.Minute}
	require.NoError(t, p.Validate())
	assert.Equal(t, "3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s; attempts share the time left; timeout 1m0s", p.String())
	data, err := json.Marshal(p)
	require.NoError(t, err)
	assert.JSONEq(t, `{"attempt_timeout":"equal_share","timeout":"1m0s"}`, string(data))
	var read retry.Policy
	require.NoError(t, json.Unmarshal(data, &read))
	assert.Equal(t, p, read)

	require.ErrorContains(t, json.Unmarshal([]byte(`{"attempt_timeout":"share"}`), &read),
		`attempt_timeout: "share": must be a duration like "1m30s", or a number of seconds`)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"attempt_timeout":"-2562047h47m16.854775808s"}`), &read), "must not be negative")
	require.ErrorContains(t, json.Unmarshal([]byte(`{"timeout":"equal_share"}`), &read), "timeout: ")
	p.MaxAttempts = retry.Unlimited
	require.EqualError(t, p.Validate(), "retry: invalid policy: "+
		"attempt_timeout: equal_share: has no share of unlimited attempts; set max_attempts")
}
