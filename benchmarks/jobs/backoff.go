package jobs

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/seed-5ff3c98e/retry/examples/jobs/jobstest"
)

func backoffRetry(ctx context.Context, op jobstest.Op) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, op(ctx) })
	return err
}

func backoffReconnect(ctx context.Context, connect jobstest.Op) error {
	wait := &backoff.ExponentialBackOff{
		InitialInterval: time.Second, Multiplier: 2, MaxInterval: 30 * time.Second, RandomizationFactor: 0.5,
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		began := time.Now()
		err := connect(ctx)
		if time.Since(began) >= time.Minute {
			wait.Reset()
		}
		return struct{}{}, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0))
	return err
}

func backoffCommand(ctx context.Context, name string, arg ...string) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		cmd := exec.CommandContext(ctx, name, arg...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return struct{}{}, cmd.Run()
	}, backoff.WithMaxTries(3))
	return err
}

func backoffNested(ctx context.Context, op jobstest.Op) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, op(ctx) }, backoff.WithMaxTries(3))
		if err != nil {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, nil
	}, backoff.WithMaxTries(3))
	return err
}
