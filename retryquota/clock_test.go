package retryquota_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// standing is a clock that stands still. It panics when it is asked too often.
type standing struct {
	at    time.Time
	asked int
	most  int // 0: it never panics
}

func (s *standing) Now() time.Time {
	if s.asked++; s.most > 0 && s.asked > s.most {
		panic("no clock")
	}
	return s.at
}

func (s *standing) After(time.Duration) <-chan time.Time { return nil }

// A Clock that stands still or panics harms its own call alone, also at the head of the line.
func TestClockOfAnotherCall(t *testing.T) {
	t.Parallel()
	for _, most := range []int{0, 1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			q := &retryquota.Quota{}
			turn, _, _ := q.Take(nil, 1)
			q.Tell(nil, turn, errLimited, retry.Verdict{Class: retry.RateLimited, After: 10 * time.Second})
			ctx, cancel := context.WithCancel(t.Context())
			var first, all sync.WaitGroup
			for range 3 {
				first.Go(func() {
					defer func() { _ = recover() }()
					p := &retry.Policy{Quota: q, Clock: &standing{at: time.Now(), most: most}}
					_ = p.Execute(ctx, func(context.Context) error { return nil })
				})
			}
			synctest.Wait()
			start := time.Now()
			for range 20 {
				all.Go(func() {
					p := &retry.Policy{Quota: q}
					assert.NoError(t, p.Execute(t.Context(), func(context.Context) error { return nil }))
				})
			}
			all.Wait()
			assert.Less(t, time.Since(start), 20*time.Second)
			cancel()
			first.Wait()
			assert.Zero(t, q.Status(nil).Waiting)
		})
	}
}
