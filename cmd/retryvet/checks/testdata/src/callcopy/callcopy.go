package callcopy

import (
	"context"

	"github.com/seed-5ff3c98e/retry"
)

func use(retry.Call)    {}
func point(*retry.Call) {}

func copies(ctx context.Context, p *retry.Policy) retry.Call {
	call := retry.Call{Policy: p}
	for call.Next(ctx) {
		call.End(nil)
		use(call)     // want `copies a retry.Call whose attempts have begun`
		other := call // want `copies a retry.Call`
		point(&call)
		_ = &other
	}
	return call // want `copies a retry.Call`
}

func before(ctx context.Context, p *retry.Policy) {
	call := retry.Call{Policy: p}
	other := call
	for other.Next(ctx) {
		other.End(nil)
	}
}
