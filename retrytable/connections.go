package retrytable

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
)

// connections is how many connections a Worker uses besides those of outcomes with other
// writes: one for the statements that take rows, one for leases, and one for each committer.
const connections = 2 + mostCommitters

const longestPatience = 10 * time.Second

// limit is how long a statement may take under a lease that ends then. There is time for
// several tries, so that a connection that is silent costs one of them.
func (s *shift[ID]) limit(ends time.Time) time.Duration {
	return max(time.Until(ends)/4, s.lease/10)
}

// patience is how long a statement that takes rows may last.
func (s *shift[ID]) patience() time.Duration { return min(longestPatience, s.lease/2) }

// within is answerWithin for a function that returns nothing but an error.
func (s *shift[ID]) within(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	_, err := answerWithin(ctx, s, d, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// answerWithin calls fn with a context that ends after d, and returns soon after that even if
// fn does not: some drivers read from a silent connection whatever the context says, and a
// commit has no context. fn then keeps its connection, so nobody else gets it. If there was
// no answer in time, other idle connections may be silent too, so they are probed.
func answerWithin[ID, T any](
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
		a.err = engine.Guard("a Scan or Value method", func() (err error) {
			a.value, err = fn(ctx)
			return err
		})
		answers <- a
	}()
	var late <-chan time.Time
	for done := ctx.Done(); ; {
		select {
		case a := <-answers:
			s.replace(a.err)
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

// probe closes the idle connections that do not answer a ping in d. Nobody waits for it,
// because meanwhile the connections are out of the pool.
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

// replace closes the idle connections if an error says that this one is of no use: its server has
// become read-only, for example, and keeps the connections to it. It is one of the idle ones by
// now, unless another goroutine has taken it and finds that out again.
func (s *shift[ID]) replace(err error) {
	if err == nil {
		return
	}
	if v := sqlerr.Classify(err); sqlerr.Elsewhere(v) || sqlerr.Stale(v) {
		sqlerr.Drain(s.ctx, s.DB)
	}
}

// touchEvery is how often a Worker with nothing to do looks whether its server still takes writes.
const touchEvery = 5 * time.Second

// touch returns an error if the server does not take writes, where a claim that finds nothing writes
// nothing. A server that has become read-only would otherwise never have a job for this Worker.
func (s *claiming[ID]) touch() error {
	if s.statements.Touch == "" || time.Since(s.touched) < touchEvery {
		return nil
	}
	s.touched = time.Now()
	s.lane.Lock()
	defer s.lane.Unlock()
	return s.within(s.ctx, s.patience(), func(ctx context.Context) error {
		_, err := s.DB.ExecContext(ctx, s.statements.Touch)
		return err
	})
}

// churn counts the connections that package sql has closed because it keeps only two idle
// connections, unless it is told otherwise. It counts anew every minute.
type churn struct {
	since  time.Time
	closed int64 // connections until then
	asked  int64 // statements until then
	told   bool
}

// mostChurn is how many connections may be closed in a minute before the Worker reports it.
// One for ten statements is never reported.
const mostChurn = 100

// adviseMoreIdle reports once that the DB should keep more idle connections, and how many.
func (s *shift[ID]) adviseMoreIdle(c *churn) {
	stats := s.DB.Stats()
	asked := s.asked.Load()
	switch closed := stats.MaxIdleClosed - c.closed; {
	case c.told:
	case closed >= max(mostChurn, (asked-c.asked)/10):
		c.told = true
		n := connections
		if s.inTx.Load() {
			n += s.concurrency
		}
		if stats.MaxOpenConnections > 0 {
			n = min(n, stats.MaxOpenConnections)
		}
		s.report(fmt.Errorf("retrytable: Worker.DB: %d connections were closed in %v because too few may be idle: "+
			"each job waits for new ones: call db.SetMaxIdleConns(%d)",
			closed, time.Since(c.since).Round(time.Second), n))
	case time.Since(c.since) > time.Minute:
		c.since, c.closed, c.asked = time.Now(), stats.MaxIdleClosed, asked
	}
}
