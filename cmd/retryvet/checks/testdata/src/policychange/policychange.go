package policychange

import (
	"context"

	"github.com/seed-5ff3c98e/retry"
)

var shared = &retry.Policy{}

func init() { shared.MaxAttempts = 5 }

func set(n int) {
	shared.MaxAttempts = n // want `changes a policy that calls in progress share`
}

func inside(ctx context.Context, p *retry.Policy) error {
	return p.Execute(ctx, func(context.Context) error {
		p.MaxAttempts++
		p.MaxAttempts = 1 // want `changes a policy that calls in progress share`
		return nil
	})
}

func copied(ctx context.Context, p *retry.Policy) error {
	q := *p
	q.MaxAttempts = 1
	return q.Execute(ctx, nil)
}
