package retryjob

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Overtime says when a job is kept no longer for work that ignores its context. The context ends
// with the attempt's limit, when the worker stops, or when the lease is lost. Work that goes on
// for ever would otherwise keep its job from all other workers. It is safe for concurrent use.
type Overtime struct {
	Most time.Duration // from the end of the context on

	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // of the work in progress; nil if there is none
	since time.Time       // when it was first seen that ctx has ended
	over  bool
}

// Watch has fn watched while it runs.
func (o *Overtime) Watch(fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		o.Begin(ctx)
		defer o.end()
		return fn(ctx)
	}
}

// Begin watches work with that context, which goes on for as long as its job is kept.
func (o *Overtime) Begin(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ctx = ctx
}

func (o *Overtime) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ctx, o.since = nil, time.Time{}
}

// Over reports whether the job is kept no longer. It stays so when the work returns after all.
func (o *Overtime) Over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over
}

// Check is asked again and again while there is work. It returns an error once, when the
// overtime is over.
func (o *Overtime) Check(now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over || o.ctx == nil || o.ctx.Err() == nil {
		return nil
	}
	if o.since.IsZero() {
		o.since = now
	}
	late := now.Sub(o.since)
	if o.over = late >= o.Most; !o.over {
		return nil
	}
	return fmt.Errorf("its work goes on %v after its context has ended (%w), and keeps its place in this worker until it returns",
		late.Round(time.Millisecond), context.Cause(o.ctx))
}

// Keep calls beat again and again, to tell the engine that the worker lives, until end is called
// or the overtime is over, of which tell is told. end waits for the last beat, which would undo
// what follows.
func (o *Overtime) Keep(every time.Duration, beat func(), tell func(error)) (end func()) {
	over := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-over:
				return
			}
			select {
			case <-over: // an engine that was silent to the last beat keeps the outcome waiting no longer
				return
			default:
			}
			if err := o.Check(time.Now()); err != nil {
				tell(err)
				return
			}
			beat()
		}
	})
	return sync.OnceFunc(func() {
		close(over)
		beats.Wait()
	})
}
