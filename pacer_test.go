package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// oddPacer returns nonsense.
type oddPacer struct {
	waited time.Duration
	err    error
	taken  int
	told   []error
}

func (o *oddPacer) Wait(context.Context, *retry.Policy, retry.Waiting) (retry.Turn, time.Duration, error) {
	return 7, o.waited, o.err
}

func (o *oddPacer) Take(*retry.Policy, int) (retry.Turn, int, time.Duration) {
	return 7, o.taken, -time.Hour
}
func (o *oddPacer) Return(*retry.Policy, retry.Turn, int) {}

func (o *oddPacer) Tell(_ *retry.Policy, _ retry.Turn, err error, _ retry.Verdict) time.Duration {
	o.told = append(o.told, err)
	return -1
}

// A Pacer decides when an attempt begins, and whether one does; it hears how each of them ended.
func TestPacerOfOnesOwn(t *testing.T) {
	t.Parallel()
	errBurst := errors.New("burst is 0")
	deadline, cancel := context.WithDeadline(t.Context(), firstAttempt.Add(time.Hour))
	defer cancel()
	for name, tt := range map[string]struct {
		pacer oddPacer
		ctx   context.Context
		want  error
		told  int
	}{
		"at once":         {oddPacer{}, t.Context(), nil, 1},
		"a negative wait": {oddPacer{waited: -time.Hour}, t.Context(), nil, 1},
		"held":            {oddPacer{err: &retry.HeldError{For: time.Hour}}, t.Context(), retry.StopRetryAfter, 0},
		"an error":        {oddPacer{err: errBurst}, t.Context(), errBurst, 0},
		"a deadline":      {oddPacer{err: errBurst}, deadline, retry.StopDeadline, 0},
	} {
		p := &retry.Policy{Quota: &tt.pacer, Clock: retrytest.NewClock(firstAttempt)}
		if err := p.Execute(tt.ctx, func(context.Context) error { return nil }); tt.want == nil {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, tt.want, name)
		}
		assert.Len(t, tt.pacer.told, tt.told, name)
	}
	odd := &oddPacer{taken: -7}
	call := retry.Call{Policy: &retry.Policy{Quota: odd}}
	assert.False(t, call.Begin(t.Context()))
	assert.Equal(t, time.Millisecond, call.Delay())
	odd.taken = 1
	require.True(t, call.Begin(t.Context()))
	call.Abort()
	assert.Equal(t, []error{retry.ErrLost}, odd.told, "an attempt without an outcome is told too")
}
