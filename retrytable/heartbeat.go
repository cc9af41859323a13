package retrytable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// beat extends a lease, which does not end before ends, until stop is called. If the
// lease is lost, beat calls lost. stop returns when the lease ends now.
func (s *shift[ID]) beat(lease Lease[ID], ends time.Time, lost context.CancelCauseFunc) (stop func() time.Time) {
	ctx, cancel := context.WithCancel(s.ctx)
	var heart sync.WaitGroup
	heart.Go(func() { ends = s.extend(ctx, lease, ends, lost) })
	return func() time.Time {
		cancel()
		heart.Wait()
		return ends
	}
}

// errAsleep is the reason if the lease was not extended and the database reported no
// error.
var errAsleep = errors.New("this process did not run")

func (s *shift[ID]) extend(ctx context.Context, lease Lease[ID], ends time.Time, lost context.CancelCauseFunc) time.Time {
	pause, last := s.heartbeat, errAsleep
	for sleep(ctx, min(pause, time.Until(ends))) == nil {
		sent := time.Now()
		if !sent.Before(ends) {
			lost(fmt.Errorf("%w: it was not extended in time: %w", ErrLeaseLost, last))
			return ends
		}
		_, err := within(ctx, s, s.limit(ends), func(ctx context.Context) (any, error) {
			return nil, s.Table.Extend(ctx, s.DB, lease, 0)
		})
		switch {
		case err == nil:
			pause, last = s.heartbeat, errAsleep
			ends = sent.Add(s.lease)
		case errors.Is(err, ErrLeaseLost):
			lost(err)
			return ends
		default:
			pause, last = s.heartbeat/4, err
		}
	}
	return ends
}
