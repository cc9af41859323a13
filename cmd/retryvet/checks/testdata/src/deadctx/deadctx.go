package deadctx

import (
	"context"
	"errors"
	"time"

	avast "github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"
	poll "k8s.io/apimachinery/pkg/util/wait"
	k8sretry "k8s.io/client-go/util/retry"

	"github.com/seed-5ff3c98e/retry"
)

func call(context.Context) error { return nil }

func before(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // want `when ctx is over, the loop goes on with attempts that fail at once`
	defer cancel()
	for i := 0; i < 5; i++ {
		if err = call(ctx); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return err
}

func outer(ctx context.Context, p *retry.Policy) error {
	return p.Execute(ctx, func(attempt context.Context) error {
		return call(ctx) // want `ctx is the context around the attempts`
	})
}

// What follows is in order.

func asks(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for i := 0; i < 5; i++ {
		if err = call(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return err
}

func looks(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for i := 0; i < 5; i++ {
		if err = call(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		time.Sleep(time.Second)
	}
	return err
}

func wait(context.Context, time.Duration) error { return nil }

func waits(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for i := 0; i < 5; i++ {
		if err = call(ctx); err == nil {
			return nil
		}
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
	}
	return err
}

func inside(ctx context.Context) (err error) {
	for i := 0; i < 5; i++ {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err = call(attempt)
		cancel()
		if err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return err
}

func own(ctx context.Context, p *retry.Policy) error {
	return p.Execute(ctx, func(ctx context.Context) error { return call(ctx) })
}

// The end of a context is no conflict.
func conflict(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return k8sretry.RetryOnConflict(1, func() error { return call(ctx) })
}

// What a poll begins may go on after it.
func follows(ctx context.Context) error {
	return poll.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(context.Context) (bool, error) {
		return true, call(ctx) // want `ctx is the context around the attempts`
	})
}

func followsOn(ctx context.Context) error {
	return poll.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(_ context.Context) (bool, error) {
		return true, call(ctx)
	})
}

func library(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // want `when ctx is over, backoff goes on with attempts that fail at once`
	defer cancel()
	return backoff.Retry(func() error { return call(ctx) }, backoff.NewExponentialBackOff())
}

func another(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // want `when ctx is over, retry-go goes on`
	defer cancel()
	op := func() error { return call(ctx) }
	return avast.Do(op, avast.Attempts(3))
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
	return avast.Do(func() error { return call(ctx) }, avast.Context(ctx))
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
