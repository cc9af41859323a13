package peers

import (
	"context"
	"math/rand/v2"
	"time"
)

// The loop that a careful engineer writes by hand: it looks at its context before
// every attempt, sets up one timer per call, and none for a wait of 0.
var byHand = &Contestant{
	Name:      "hand",
	new:       func(p policy) caller { return &hand{p} },
	markFinal: asItIs,
	delays:    &delays{draw: drawByHand},
}

type hand struct{ policy }

func (h *hand) static(ctx context.Context, n int, o *op) (err error) {
	for range n {
		err = h.execute(ctx, o.errCtx)
	}
	return err
}

func (h *hand) value(ctx context.Context, n int, o *op) (v int, err error) {
	for range n {
		v, err = h.get(ctx, o.valueCtx)
	}
	return v, err
}

func (h *hand) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		calls := 0
		err = h.execute(ctxs[i&1], func(ctx context.Context) error {
			calls++
			return s.do(ctx, calls)
		})
	}
	return err
}

//go:noinline
func (h *hand) execute(ctx context.Context, fn func(context.Context) error) error {
	var timer *time.Timer
	for attempt := 1; ; attempt++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		err := fn(ctx)
		if err == nil || attempt == h.attempts || isFinal(err) {
			return err
		}
		if d := h.delay(attempt); d > 0 {
			timer = sleep(ctx, timer, d)
		}
	}
}

// get is execute for a function with a result.
//
//go:noinline
func (h *hand) get(ctx context.Context, fn func(context.Context) (int, error)) (int, error) {
	var timer *time.Timer
	for attempt := 1; ; attempt++ {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		default:
		}
		v, err := fn(ctx)
		if err == nil || attempt == h.attempts || isFinal(err) {
			return v, err
		}
		if d := h.delay(attempt); d > 0 {
			timer = sleep(ctx, timer, d)
		}
	}
}

func (h *hand) delay(retry int) time.Duration {
	if h.wait != exponential {
		return h.wait
	}
	return time.Duration(rand.Int64N(int64(min(initial<<(retry-1), limit)) + 1)) //retryvet:ignore there are few attempts
}

// sleep waits until d has passed or ctx has ended, and returns the timer for the
// next wait.
func sleep(ctx context.Context, timer *time.Timer, d time.Duration) *time.Timer {
	if timer == nil {
		timer = time.NewTimer(d)
	} else {
		timer.Reset(d)
	}
	select {
	case <-timer.C:
	case <-ctx.Done():
		timer.Stop()
	}
	return timer
}

func drawByHand(n int, waits *[10]time.Duration) {
	for range n {
		d := initial
		for i := range waits {
			waits[i] = time.Duration(rand.Int64N(int64(d) + 1))
			d = min(2*d, limit)
		}
	}
}
