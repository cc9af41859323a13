package jobs

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/seed-5ff3c98e/retry/examples/jobs/jobstest"
)

func goRetryRetry(ctx context.Context, op jobstest.Op) error {
	return retry.Do(ctx, retry.WithMaxRetries(2, retry.NewExponential(time.Second)), func(ctx context.Context) error {
		return retry.RetryableError(op(ctx))
	})
}

func goRetryCommand(ctx context.Context, name string, arg ...string) error {
	return retry.Do(ctx, retry.WithMaxRetries(2, retry.NewExponential(time.Second)), func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, name, arg...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return retry.RetryableError(cmd.Run())
	})
}

func goRetryNested(ctx context.Context, op jobstest.Op) error {
	return retry.Do(ctx, retry.WithMaxRetries(2, retry.NewExponential(time.Second)), func(ctx context.Context) error {
		return retry.Do(ctx, retry.WithMaxRetries(2, retry.NewExponential(time.Second)), func(ctx context.Context) error {
			return retry.RetryableError(op(ctx))
		})
	})
}
