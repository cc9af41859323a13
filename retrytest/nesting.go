package retrytest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seed-5ff3c98e/retry"
)

// Nesting is a [retry.Observer] that sees retries inside of retries: an attempt of one policy
// that ran the attempts of another one. Their numbers multiply: three attempts at three
// layers are 27 calls. Share one Nesting between the policies of a program or a test, and
// ask for [Nesting.Attempts] or [Nesting.Product] at the end.
//
// A policy without the Nesting, such as one inside of a library, is seen only by its error:
// if an attempt of a policy with the Nesting fails with the [*retry.Error] of an inner one.
// Then the inner one is not seen if it succeeds, if its error is Final, or if it returns a
// response. So give the Nesting to the policy of a retryhttp.Transport too. An inner policy
// whose context is not derived from the context of the attempt is seen by its error alone,
// and loops of other libraries are not seen.
//
// A Nesting puts a value into the context of each attempt. The zero value is ready; a Nesting
// must not be copied after its first use. It is safe for concurrent use.
type Nesting struct {
	mu       sync.Mutex
	attempts []int
	product  int
}

// Attempt notes an attempt, and marks its context; see [retry.Observer].
func (n *Nesting) Attempt(ctx context.Context, attempt int) (context.Context, func(error)) {
	attempts := append(n.around(ctx), attempt)
	n.note(attempts)
	return context.WithValue(ctx, n, attempts), nil
}

// Observe implements [retry.Observer].
func (n *Nesting) Observe(ctx context.Context, e retry.Event) {
	attempts := append(n.around(ctx), e.Attempt)
	var inner *retry.Error
	for err := failure(e); errors.As(err, &inner); err = inner.Err {
		attempts = append(attempts, inner.Attempts)
	}
	n.note(attempts)
}

// Attempts returns the numbers of the attempts that ran inside each other, from the outermost
// policy to the innermost: [3 3 3]. Of several it returns the ones with the largest product.
// It returns nil if no policy ran inside another one.
func (n *Nesting) Attempts() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.attempts)
}

// Product returns the product of [Nesting.Attempts]: how many calls of the innermost operation
// one call of the outermost policy becomes, if each layer fails as often each time. It
// returns 0 if no policy ran inside another one.
func (n *Nesting) Product() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.product
}

// around returns the numbers of the attempts that a call with this context is part of.
func (n *Nesting) around(ctx context.Context) []int {
	attempts, _ := ctx.Value(n).([]int)
	return slices.Clip(attempts) // others share it
}

func (n *Nesting) note(attempts []int) {
	if len(attempts) < 2 {
		return
	}
	product := 1
	for _, attempt := range attempts {
		product *= attempt
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if product > n.product || product == n.product && len(attempts) > len(n.attempts) {
		n.attempts, n.product = attempts, product
	}
}
