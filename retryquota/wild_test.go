package retryquota_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// jumping is a clock that is wrong by off.
type jumping struct{ off atomic.Int64 }

func (j *jumping) Now() time.Time                         { return time.Now().Add(time.Duration(j.off.Load())) }
func (j *jumping) After(d time.Duration) <-chan time.Time { return time.After(d) }

// wild is an Observer that panics when it is told (0), before or after a wait (1, 2), or before or
// after an attempt (3, 4).
func wild(when int) *retry.Observer {
	panics := func(now int) {
		if now == when {
			panic("wild")
		}
	}
	return &retry.Observer{
		Event: func(context.Context, retry.Event) { panics(0) },
		Wait: func(string) func() {
			panics(1)
			return func() { panics(2) }
		},
		Attempt: func(context.Context, int) (context.Context, func(error)) {
			panics(3)
			return nil, func(error) { panics(4) }
		},
	}
}

// A turn that comes as the Observer panics is given back.
func TestQuotaAfterAWildWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &retryquota.Quota{}
		turn, _, _ := q.Take(nil, 1)
		go func() {
			defer func() { assert.NotNil(t, recover()) }()
			_ = (&retry.Policy{Quota: q, Observer: wild(2)}).Execute(t.Context(), func(context.Context) error { return nil })
		}()
		synctest.Wait()
		q.Tell(nil, turn, nil, retry.Verdict{})
		synctest.Wait()
		_, n, _ := q.Take(nil, 2)
		assert.Equal(t, 2, n, "one has come back well while one waited")
	})
}

// Among calls that are canceled, panic, run out of time, have clocks that jump or hear absurd hints,
// the others get through, and nobody stays in the line.
func TestQuotaAmongWildCalls(t *testing.T) {
	t.Parallel()
	hints := []time.Duration{0, -time.Hour, 365 * 24 * time.Hour, math.MaxInt64}
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			r, clock, q := rand.New(rand.NewPCG(seed, 9)), &jumping{}, &retryquota.Quota{}
			api := &testkit.Window{Limit: 50, Length: 2 * time.Second}
			var all sync.WaitGroup
			for i := range 600 {
				p := &retry.Policy{Quota: q, FreeRateLimits: 1 << 20}
				ctx, cancel := context.WithCancel(t.Context())
				work := func(context.Context) error { return api.Ask() }
				at, ends := time.Duration(r.IntN(10000))*time.Millisecond, time.Duration(1+r.IntN(20000))*time.Millisecond
				kind := i % 8
				switch kind {
				case 0:
					time.AfterFunc(ends, cancel)
				case 1:
					p.Observer = wild(i / 8 % 5)
				case 2:
					p.Clock = clock
				case 3:
					work = func(context.Context) error { panic("work") }
				case 4:
					p.Timeout = ends
				case 5:
					if i < 8*len(hints) {
						work = func(context.Context) error { return retry.MarkRateLimited(errLimited, hints[i/8]) }
						p.MaxAttempts, p.FreeRateLimits = 1, 0
					}
				}
				all.Go(func() {
					defer cancel()
					defer func() { assert.Equal(t, kind == 1 || kind == 3, recover() != nil || kind == 1, kind) }()
					time.Sleep(at)
					err := p.Execute(ctx, work)
					assert.True(t, err == nil || kind < 6, "%v", err)
				})
			}
			for range 10 {
				time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				clock.off.Store([]int64{0, -24, 24, 1, -365 * 24}[r.IntN(5)] * int64(time.Hour))
			}
			clock.off.Store(0)
			began := time.Now()
			all.Wait()
			assert.Zero(t, q.Status(nil).Waiting)
			assert.Less(t, time.Since(began), 10*time.Minute, "absurd hints and jumps hold for a MaxHold each, and 600 calls take 24 s")
		})
	}
}
