package retrytable

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync"
	"time"
)

const longestPatience = 10 * time.Second

// connections is how many a Worker uses besides those of outcomes with other writes: one
// for the statements that take rows, one for leases, and one for each committer.
const connections = 2 + mostCommitters

// limit is how long a statement may take under a lease that ends then. There is time for
// several tries, so that a connection that is silent costs one of them.
func (s *shift[ID]) limit(ends time.Time) time.Duration {
	return max(time.Until(ends)/4, s.lease/10)
}

// patience is how long a statement that takes rows may last.
func (s *shift[ID]) patience() time.Duration { return min(longestPatience, s.lease/2) }

// within calls fn with a context that ends after d, and returns soon after that even if fn
// does not: some drivers read from a silent connection whatever the context says, and a
// commit has none. The connection then is fn's for as long as that takes, so nobody else
// gets it. If there was no answer, the idle connections are looked at: they may have
// become silent together.
func within[ID, T any](
	ctx context.Context, s *shift[ID], d time.Duration, fn func(context.Context) (T, error),
) (T, error) {
	s.asked.Add(1)
	outer := ctx
	ctx, cancel := context.WithTimeout(outer, d)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		a.err = guard("a Scan or Value method", func() (err error) {
			a.value, err = fn(ctx)
			return err
		})
		answers <- a
	}()
	var late <-chan time.Time
	for done := ctx.Done(); ; {
		select {
		case a := <-answers:
			if a.err != nil && late != nil && outer.Err() == nil {
				s.probe(d)
			}
			return a.value, a.err
		case <-done:
			timer := time.NewTimer(d / 4) // most drivers return at once
			defer timer.Stop()
			done, late = nil, timer.C
		case <-late:
			s.probe(d)
			var none T
			return none, fmt.Errorf("retrytable: no answer within %v: %w", d, context.DeadlineExceeded)
		}
	}
}

// probe closes the idle connections that do not answer a ping in d. Nobody waits for
// that: they are out of the pool meanwhile.
func (s *shift[ID]) probe(d time.Duration) {
	if !s.probing.CompareAndSwap(false, true) {
		return
	}
	var probes sync.WaitGroup
	for range s.DB.Stats().Idle {
		probes.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, d)
			defer cancel()
			conn, err := s.DB.Conn(ctx)
			if err != nil {
				return
			}
			if conn.PingContext(ctx) != nil {
				_ = conn.Raw(func(any) error { return driver.ErrBadConn })
			}
			_ = conn.Close()
		})
	}
	go func() {
		probes.Wait()
		s.probing.Store(false)
	}()
}
