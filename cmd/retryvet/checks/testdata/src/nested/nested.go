package nested

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/cenkalti/backoff/v4"
	"github.com/redis/go-redis/v9"
	"github.com/seed-5ff3c98e/retry"
)

func cloud(ctx context.Context, client *s3.Client, d time.Duration) (err error) {
	for i := 0; i < 3; i++ {
		if _, err = client.PutObject(ctx, nil); err == nil { // want `the AWS SDK retries by itself`
			return nil
		}
		if i < 2 {
			time.Sleep(d)
		}
	}
	return err
}

func cache(ctx context.Context, client *redis.Client) error {
	return backoff.Retry(func() error {
		return client.Get(ctx, "key").Err() // want `go-redis retries by itself`
	}, backoff.NewExponentialBackOff())
}

func twice(ctx context.Context, p *retry.Policy, call func(context.Context) error) error {
	return backoff.Retry(func() error {
		return p.Execute(ctx, call) // want `retry retries by itself`
	}, backoff.NewExponentialBackOff())
}

// What follows is in order.

// The error of the inner policy is final to the outer one.
func ofOneLibrary(ctx context.Context, p *retry.Policy, call func(context.Context) error) error {
	return p.Execute(ctx, func(ctx context.Context) error {
		return p.Execute(ctx, call)
	})
}

var errNotReady = errors.New("not ready")

func ofOneKind(ctx context.Context, client *s3.Client, d time.Duration) (err error) {
	for i := 0; i < 3; i++ {
		if _, err = client.PutObject(ctx, nil); err == nil || !errors.Is(err, errNotReady) {
			return err
		}
		time.Sleep(d)
	}
	return err
}

func marked(ctx context.Context, client *redis.Client) error {
	return backoff.Retry(func() error {
		if err := client.Get(ctx, "key").Err(); err != nil {
			return backoff.Permanent(err)
		}
		return errNotReady
	}, backoff.NewExponentialBackOff())
}

type conflict struct{}

func (*conflict) Error() string { return "conflict" }

func ofOneType(ctx context.Context, client *redis.Client) error {
	return backoff.Retry(func() error {
		err := client.Get(ctx, "key").Err()
		if _, ok := errors.AsType[*conflict](err); ok {
			return err
		}
		return nil
	}, backoff.NewExponentialBackOff())
}
