package callend

import (
	"context"

	"github.com/seed-5ff3c98e/retry"
)

func try(context.Context) (int, error) { return 0, nil }

func forgets(ctx context.Context) error {
	call := retry.Call{}
	for call.Next(ctx) { // want `an attempt may go on to the next without End`
		n, err := try(call.Context())
		if n == 0 {
			continue
		}
		call.End(err)
	}
	return call.Err()
}

func ends(ctx context.Context) error {
	call := retry.Call{}
	for call.Next(ctx) {
		_, err := try(call.Context())
		call.End(err)
	}
	return call.Err()
}

func leaves(ctx context.Context) error {
	call := retry.Call{}
	defer call.Abort()
	for call.Begin(ctx) {
		n, err := try(call.Context())
		if n == 0 {
			return err
		}
		call.End(err)
	}
	return call.Err()
}

func helper(c *retry.Call) { c.End(nil) }

func gives(ctx context.Context) {
	call := retry.Call{}
	for call.Next(ctx) {
		helper(&call)
	}
}
