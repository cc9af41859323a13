package jobs_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/examples/jobs"
	"github.com/seed-5ff3c98e/retry/examples/jobs/jobstest"
)

func TestHTTPClient(t *testing.T) {
	t.Parallel()
	jobstest.HTTPClient(t, jobs.HTTPClient)
}

func TestImport(t *testing.T) {
	t.Parallel()
	jobstest.Import(t, jobs.Import)
}

func TestWithMockClock(t *testing.T) {
	t.Parallel()
	jobstest.WithMockClock(t, clock.NewMock(), func(ctx context.Context, mock *clock.Mock, op jobstest.Op) error {
		return jobs.WithMockClock(ctx, mock, op)
	})
}

func TestRetry(t *testing.T) {
	t.Parallel()
	jobstest.Retry(t, jobs.Retry)
}

func TestReconnect(t *testing.T) {
	t.Parallel()
	jobstest.Reconnect(t, jobs.Reconnect)
}

func TestPoll(t *testing.T) {
	t.Parallel()
	jobstest.Poll(t, jobs.Poll)
}

func TestReschedule(t *testing.T) {
	t.Parallel()
	column := []byte(`{}`) // of the row
	jobstest.Reschedule(t, func(failure error, now time.Time) (time.Time, bool) {
		var state retry.State
		require.NoError(t, json.Unmarshal(column, &state))
		next, due, ended := jobs.Reschedule(state, failure, now)
		var err error
		column, err = json.Marshal(next)
		require.NoError(t, err)
		return due, ended
	})
}

func TestPerKind(t *testing.T) {
	t.Parallel()
	jobstest.PerKind(t, jobs.ErrBusy, jobs.ErrConflict, jobs.ErrGone, jobs.PerKind)
}

func TestAllErrors(t *testing.T) {
	t.Parallel()
	jobstest.AllErrors(t, jobs.AllErrors)
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	jobstest.Answer(t, jobs.Answer)
}

func TestSigningClient(t *testing.T) {
	t.Parallel()
	jobstest.SigningClient(t, jobs.SigningClient)
}

func TestThrottled(t *testing.T) {
	t.Parallel()
	jobstest.Throttled(t, func() jobstest.Runner { return jobs.Throttled() })
}

func TestExactDelay(t *testing.T) {
	t.Parallel()
	jobstest.ExactDelay(t, func(d time.Duration) error { return &jobs.BusyError{Wait: d} }, jobs.ExactDelay)
}

func TestNested(t *testing.T) {
	t.Parallel()
	jobstest.Nested(t, jobs.Nested)
}
