package deadctx

import (
	"context"
	"errors"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"
)

func library(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // want `when ctx is over, backoff goes on with attempts that fail at once`
	defer cancel()
	return backoff.Retry(func() error { return call(ctx) }, backoff.NewExponentialBackOff())
}

func another(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // want `when ctx is over, retry-go goes on`
	defer cancel()
	op := func() error { return call(ctx) }
	return retry.Do(op, retry.Attempts(3))
}

func connects(ctx context.Context, serve func()) {
	dialCtx, cancel := context.WithTimeout(ctx, time.Second) // want `when dialCtx is over`
	defer cancel()
	for {
		if err := call(dialCtx); err != nil {
			time.Sleep(time.Second)
			continue
		}
		serve()
	}
}

func busy(ctx context.Context, get func(context.Context) (int, error)) (int, error) {
	for {
		n, err := get(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			continue // want `when ctx is over, this loop goes round without a wait`
		}
		return n, err
	}
}

// What follows is in order.

func known(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return backoff.Retry(func() error { return call(ctx) }, backoff.WithContext(backoff.NewExponentialBackOff(), ctx))
}

func knownBefore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	b := backoff.WithContext(backoff.NewExponentialBackOff(), ctx)
	return backoff.Retry(func() error { return call(ctx) }, b)
}

func option(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return retry.Do(func() error { return call(ctx) }, retry.Context(ctx))
}

func ofAttempt(ctx context.Context) error {
	return backoff.Retry(func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return call(ctx)
	}, backoff.NewExponentialBackOff())
}

func ownTime(ctx context.Context, get func(context.Context) (int, error)) (int, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		n, err := get(attempt)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		return n, err
	}
}

func asksFirst(ctx context.Context, get func(context.Context) (int, error)) (int, error) {
	for {
		n, err := get(ctx)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			continue
		}
		return n, err
	}
}

func fromError(error) (int, bool) { return 0, false }

func looksInside(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		if status, ok := FromError(err); ok && status == 14 {
			time.Sleep(time.Millisecond)
			continue
		}
		return err
	}
}

func FromError(err error) (int, bool) { return fromError(err) }
