// Package jobs does the jobs of examples/jobs with other libraries. Every version is held
// to the checks of package jobstest, and the test of this package counts lines
// and tokens and writes docs/evidence/jobs.md:
//
//	go test ./jobs            # from lab/: compare
//	go test ./jobs -update    # write the file
//
// A version is a function that is named for its library and its job. Whatever else
// it needs has a name that begins with that, and is counted with it. A library is left out
// where it is no help, or where its version would repeat another one in other words.
package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/examples/jobs/jobstest"
)

// The jobs that a peer does in fewer lines. Those that we recommend are in examples/jobs.

func oursJoined(ctx context.Context, op func(context.Context, int) error) error {
	var all []error
	call := retry.Call{}
	for call.Next(ctx) {
		err := op(call.Context(), call.Attempt())
		all = append(all, err)
		call.End(err)
	}
	if call.Err() == nil {
		return nil
	}
	return errors.Join(all...)
}

type oursLimitedThrottle func() bool

func (allow oursLimitedThrottle) TryWithdraw(time.Time) bool { return allow() }

func (oursLimitedThrottle) Deposit(time.Time) {}

func oursLimited(ctx context.Context, allow func() bool, op jobstest.Op) error {
	policy := &retry.Policy{Budget: oursLimitedThrottle(allow)}
	return policy.Execute(ctx, op)
}

func oursPlainPoll(ctx context.Context, check func(context.Context) (bool, error)) error {
	policy := &retry.Policy{Timeout: 10 * time.Minute, Backoff: retry.Constant(5 * time.Second), Jitter: retry.NoJitter}
	return policy.Execute(ctx, func(ctx context.Context) error {
		ready, err := check(ctx)
		if err == nil && !ready {
			return retry.MarkPending(errors.New("not ready"))
		}
		return retry.MarkFinal(err)
	})
}
