package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/avast/retry-go/v5"
	"github.com/benbjohnson/clock"
	"golang.org/x/sync/errgroup"

	"github.com/seed-5ff3c98e/retry/examples/jobs"
	"github.com/seed-5ff3c98e/retry/examples/jobs/jobstest"
)

func retryGoImport(
	ctx context.Context, files []string, load func(context.Context, string) error, progress func(ended int, err error),
) error {
	var ended atomic.Int64
	var group errgroup.Group
	group.SetLimit(4)
	for _, file := range files {
		group.Go(func() error {
			err := retry.New(retry.Context(ctx)).Do(func() error { return load(ctx, file) })
			progress(int(ended.Add(1)), err)
			return nil
		})
	}
	return group.Wait()
}

type retryGoWithMockClockTimer struct{ *clock.Mock }

func (t retryGoWithMockClockTimer) After(d time.Duration) <-chan time.Time {
	after := t.Mock.After(d)
	t.Add(d)
	return after
}

func retryGoWithMockClock(ctx context.Context, mock *clock.Mock, op jobstest.Op) error {
	return retry.New(
		retry.Context(ctx), retry.Delay(2*time.Second), retry.DelayType(retry.BackOffDelay),
		retry.WithTimer(retryGoWithMockClockTimer{mock}),
	).Do(func() error { return op(ctx) })
}

func retryGoRetry(ctx context.Context, op jobstest.Op) error {
	return retry.New(retry.Context(ctx)).Do(func() error { return op(ctx) })
}

func retryGoReconnect(ctx context.Context, connect jobstest.Op) error {
	failures, began := uint(0), time.Now()
	return retry.New(
		retry.Context(ctx), retry.UntilSucceeded(), retry.Delay(time.Second), retry.MaxDelay(30*time.Second),
		retry.DelayType(func(_ uint, err error, config retry.DelayContext) time.Duration {
			if failures++; time.Since(began) >= time.Minute {
				failures = 0
			}
			return retry.FullJitterBackoffDelay(failures, err, config)
		}),
	).Do(func() error {
		began = time.Now()
		return connect(ctx)
	})
}

func retryGoPerKind(ctx context.Context, op jobstest.Op) error {
	return retry.New(
		retry.Context(ctx), retry.Attempts(5), retry.AttemptsForError(2, jobs.ErrConflict),
		retry.RetryIf(func(err error) bool { return !errors.Is(err, jobs.ErrGone) }),
		retry.DelayType(func(_ uint, err error, _ retry.DelayContext) time.Duration {
			if errors.Is(err, jobs.ErrConflict) {
				return 0
			}
			return time.Second
		}),
	).Do(func() error { return op(ctx) })
}

//nolint:errorlint // it is never wrapped
func retryGoAllErrors(ctx context.Context, op func(context.Context, int) error) ([]error, error) {
	attempt := 0
	err := retry.New(retry.Context(ctx), retry.Attempts(3)).Do(func() error {
		attempt++
		return op(ctx, attempt)
	})
	all, _ := err.(retry.Error)
	return all, err
}

func retryGoJoined(ctx context.Context, op func(context.Context, int) error) error {
	attempt := 0
	return retry.New(retry.Context(ctx), retry.Attempts(3)).Do(func() error {
		attempt++
		return op(ctx, attempt)
	})
}

func retryGoAnswer(ctx context.Context, client *http.Client, url string) (string, error) {
	return retry.NewWithData[string](retry.Context(ctx)).Do(func() (string, error) {
		var answer struct{ Result, Error string }
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", retry.Unrecoverable(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		switch {
		case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
			return "", errors.New(resp.Status)
		case resp.StatusCode >= 400:
			return "", retry.Unrecoverable(errors.New(resp.Status))
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Error == "" {
			return answer.Result, err
		}
		return "", errors.New(answer.Error)
	})
}

func retryGoThrottled() jobstest.Runner {
	throttle := retry.NewFixedTokenBucketThrottle(retry.FixedTokenBucketThrottleConfig{MaxCapacity: 3, ThrottleCost: 1})
	return func(ctx context.Context, op jobstest.Op) error {
		return retry.New(retry.Context(ctx), retry.WithThrottle(throttle)).Do(func() error { return op(ctx) })
	}
}

func retryGoLimited(ctx context.Context, allow func() bool, op jobstest.Op) error {
	return retry.New(
		retry.Context(ctx), retry.RetryIf(func(error) bool { return allow() }),
	).Do(func() error { return op(ctx) })
}

func retryGoExactDelay(ctx context.Context, op jobstest.Op) error {
	return retry.New(retry.Context(ctx), retry.DelayType(func(_ uint, err error, _ retry.DelayContext) time.Duration {
		if busy := new(jobs.BusyError); errors.As(err, &busy) {
			return busy.Wait
		}
		return time.Second
	})).Do(func() error { return op(ctx) })
}

func retryGoCommand(ctx context.Context, name string, arg ...string) error {
	return retry.New(retry.Context(ctx)).Do(func() error {
		cmd := exec.CommandContext(ctx, name, arg...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	})
}

func retryGoNested(ctx context.Context, op jobstest.Op) error {
	return retry.New(retry.Context(ctx), retry.Attempts(3)).Do(func() error {
		err := retry.New(retry.Context(ctx), retry.Attempts(3)).Do(func() error { return op(ctx) })
		if err != nil {
			return retry.Unrecoverable(err)
		}
		return nil
	})
}
