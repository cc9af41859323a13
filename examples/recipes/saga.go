package recipes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Step is a part of a saga. Undo may be called if Do has failed, and twice.
type Step struct{ Do, Undo func(context.Context) error }

// Saga does the steps. If one fails, it undoes that one and those before it, the last first.
func Saga(ctx context.Context, policy *retry.Policy, steps ...Step) error {
	undo := &retry.Policy{MaxAttempts: retry.Unlimited, Timeout: time.Hour}
	for i, step := range steps {
		err := policy.Execute(ctx, step.Do)
		if err == nil {
			continue
		}
		kept := context.WithoutCancel(ctx) // the undoing goes on
		for _, begun := range slices.Backward(steps[:i+1]) {
			err = errors.Join(err, undo.Execute(kept, begun.Undo))
		}
		return err
	}
	return nil
}
