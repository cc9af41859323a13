package retrytest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// layers wraps op in policies of three attempts each, with these Observers from the
// outermost to the innermost. Each retries the error of the next one that gave up.
func layers(op func(context.Context) error, observers ...retry.Observer) func(context.Context) error {
	for _, observer := range slices.Backward(observers) {
		p := &retry.Policy{Backoff: retry.Constant(0), Observer: observer, Classifier: func(error) retry.Verdict {
			return retry.Verdict{Class: retry.Retryable}
		}}
		inner := op
		op = func(ctx context.Context) error { return p.Execute(ctx, inner) }
	}
	return op
}

func TestNesting(t *testing.T) {
	t.Parallel()
	errDown := errors.New("down")
	down := func(context.Context) error { return errDown }
	for _, test := range []struct {
		name string
		run  func(*retrytest.Nesting) error
		want []int
	}{
		{"three layers", func(n *retrytest.Nesting) error { return layers(down, n, n, n)(t.Context()) }, []int{3, 3, 3}},
		{"one layer", func(n *retrytest.Nesting) error { return layers(down, n)(t.Context()) }, nil},
		{"one after the other", func(n *retrytest.Nesting) error {
			return errors.Join(layers(down, n)(t.Context()), layers(down, n)(t.Context()))
		}, nil},
		{"the innermost is in a library", func(n *retrytest.Nesting) error { return layers(down, n, n, nil)(t.Context()) }, []int{3, 3, 3}},
		{"two are in a library", func(n *retrytest.Nesting) error { return layers(down, n, nil, nil)(t.Context()) }, []int{3, 3, 3}},
		{"the middle is in a library", func(n *retrytest.Nesting) error { return layers(down, n, nil, n)(t.Context()) }, []int{3, 3, 3}},
		{"the outermost is in a library", func(n *retrytest.Nesting) error { return layers(down, nil, n, n)(t.Context()) }, []int{3, 3}},
		{"all are in libraries", func(n *retrytest.Nesting) error { return layers(down, nil, nil, nil)(t.Context()) }, nil},
		{"with other observers", func(n *retrytest.Nesting) error {
			both := retry.Observers(&retrytest.Recorder{}, n, &retrytest.Nesting{})
			return layers(down, both, both)(t.Context())
		}, []int{3, 3}},
		{"inner successes", func(n *retrytest.Nesting) error {
			calls := 0
			inner := layers(func(context.Context) error {
				if calls++; calls%3 != 0 {
					return errDown
				}
				return nil
			}, n)
			return layers(func(ctx context.Context) error {
				_ = inner(ctx)
				return errDown // of the rest of the attempt
			}, n)(t.Context())
		}, []int{3, 3}},
		{"another context", func(n *retrytest.Nesting) error {
			inner := layers(down, n)
			return layers(func(context.Context) error { return inner(t.Context()) }, n)(t.Context())
		}, []int{3, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var n retrytest.Nesting
			require.ErrorIs(t, test.run(&n), errDown)
			assert.Equal(t, test.want, n.Attempts())
			product := 1
			for _, attempt := range test.want {
				product *= attempt
			}
			if test.want == nil {
				product = 0
			}
			assert.Equal(t, product, n.Product())
		})
	}
}

// What is seen of an inner policy without a retry: one attempt in one attempt.
func TestNestingOfSuccess(t *testing.T) {
	t.Parallel()
	var n retrytest.Nesting
	require.NoError(t, layers(func(context.Context) error { return nil }, &n, &n, &n)(t.Context()))
	assert.Equal(t, []int{1, 1, 1}, n.Attempts())
}

// Attempts at the same time are not mixed.
func TestNestingConcurrently(t *testing.T) {
	t.Parallel()
	var n retrytest.Nesting
	boom := errors.New("boom")
	inner := layers(func(context.Context) error { return boom }, &n)
	outer := layers(func(ctx context.Context) error {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { assert.Error(t, inner(ctx)) })
		}
		wg.Wait()
		return boom
	}, &n)
	require.Error(t, outer(t.Context()))
	assert.Equal(t, []int{3, 3}, n.Attempts())
}
