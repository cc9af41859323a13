package deadctx

import (
	"context"
	"errors"
	"time"

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
