package retry_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// stopReasons has all of them, with the ends of contexts that two of them stand for.
var stopReasons = []struct {
	reason retry.StopReason
	name   string
	end    error
}{
	{retry.StopNone, "none", nil},
	{retry.StopFinal, "final", nil},
	{retry.StopAttempts, "attempts", nil},
	{retry.StopElapsed, "elapsed", nil},
	{retry.StopDeadline, "deadline", context.DeadlineExceeded},
	{retry.StopCanceled, "canceled", context.Canceled},
	{retry.StopBudget, "budget", nil},
	{retry.StopRetryAfter, "retry_after", nil},
	{retry.StopMaybeApplied, "maybe_applied", nil},
	{retry.StopTimeout, "timeout", nil},
	{retry.StopBackoff, "backoff", nil},
}

func TestStopReasonText(t *testing.T) {
	t.Parallel()
	for i, r := range stopReasons {
		assert.EqualValues(t, i, r.reason, "the numbers may be stored")
		assert.Equal(t, r.name, r.reason.Error())
		text, err := r.reason.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, r.name, string(text))
		back := retry.StopReason(99)
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, r.reason, back)
	}
	assert.Equal(t, "none(200)", retry.StopReason(200).Error())
	for _, text := range []string{"", "Final", "attempts ", "none(200)", "3", "StopFinal"} {
		var r retry.StopReason
		assert.EqualError(t, r.UnmarshalText([]byte(text)), fmt.Sprintf("retry: unknown stop reason %q", text))
	}
}
