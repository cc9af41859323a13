package jobs

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/cenkalti/backoff/v5"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

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

func k8sWaitRetry(ctx context.Context, op jobstest.Op) error {
	backoff := wait.Backoff{Steps: 3, Duration: time.Second, Factor: 2, Jitter: 1}
	var err error
	if wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		err = op(ctx)
		return err == nil, nil
	}) == nil {
		return nil
	}
	return err
}

func k8sWaitReconnect(ctx context.Context, connect jobstest.Op) error {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 10, Cap: 30 * time.Second}
	delay := backoff.DelayWithReset(clock.RealClock{}, time.Minute)
	return delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		return connect(ctx) == nil, nil
	})
}

func k8sWaitPoll(ctx context.Context, check func(context.Context) (bool, error)) error {
	failures := 0
	return wait.PollUntilContextTimeout(ctx, 5*time.Second, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		ready, err := check(ctx)
		if err != nil {
			failures++
		}
		if failures < 3 {
			err = nil
		}
		return ready, err
	})
}

func k8sWaitPlainPoll(ctx context.Context, check func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 5*time.Second, 10*time.Minute, true, check)
}

func k8sWaitReschedule(state wait.Backoff, _ error, now time.Time) (next wait.Backoff, due time.Time, ended bool) {
	if state == (wait.Backoff{}) {
		state = wait.Backoff{Steps: 4, Duration: time.Minute, Factor: 2, Cap: time.Hour}
	}
	delay := state.Step()
	return state, now.Add(delay), state.Steps == 0
}
