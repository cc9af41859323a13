// Package aftercommit has the functions that a transaction calls once it is committed.
package aftercommit

import (
	"context"
	"sync"
)

// Hooks are the functions that one attempt at a transaction has registered. They are safe for
// concurrent use.
type Hooks struct {
	mu  sync.Mutex
	all []func(context.Context)
}

type key struct{}

// New returns Hooks without functions, and a context to register them with.
func New(ctx context.Context) (*Hooks, context.Context) {
	h := &Hooks{}
	return h, context.WithValue(ctx, key{}, h)
}

// Of returns the Hooks of a context, or nil.
func Of(ctx context.Context) *Hooks {
	h, _ := ctx.Value(key{}).(*Hooks)
	return h
}

// Add registers do.
func (h *Hooks) Add(do func(ctx context.Context)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, do)
}

// Call calls the functions in their order.
func (h *Hooks) Call(ctx context.Context) {
	h.mu.Lock()
	all := h.all
	h.mu.Unlock()
	for _, do := range all {
		do(ctx)
	}
}
