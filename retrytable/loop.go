package retrytable

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// claimAll claims jobs and has them done until ctx is done, and returns when they are.
func (s *shift[ID]) claimAll(ctx context.Context) {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	busy, wake, failures := make(chan struct{}, s.concurrency), s.Wake, 0
	for {
		free := reserve(ctx, busy)
		if free == 0 {
			return
		}
		rows, ends, err := s.claim(free)
		for _, row := range rows {
			jobs.Go(func() {
				defer func() { <-busy }()
				s.work(ctx, row, ends)
			})
		}
		for range free - len(rows) {
			<-busy
		}
		switch {
		case err != nil:
			s.report(err)
			failures++
			_ = sleep(ctx, s.pause(failures))
			continue
		case len(rows) < s.atOnce(free):
			wake = s.rest(ctx, wake)
		}
		failures = 0
	}
}

// reserve takes all places that are free, and waits for one if none is. It takes none
// when ctx is done.
func reserve(ctx context.Context, busy chan struct{}) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case busy <- struct{}{}:
		n++
	}
	yield(func() int { return len(busy) }) // to those that are ending
	for {
		select {
		case busy <- struct{}{}:
			n++
		default:
			if ctx.Err() == nil {
				return n
			}
			for range n {
				<-busy
			}
			return 0
		}
	}
}

// yield lets others go on that are ready to, as long as that changes a size, and not for
// long: so that one statement is for all of them.
func yield(size func() int) {
	start, before := time.Now(), size()
	for runtime.Gosched(); size() != before && time.Since(start) < longestYield; runtime.Gosched() {
		before = size()
	}
}

const longestYield = 100 * time.Microsecond

// rest waits until it is time to look for jobs again, or somebody says that there are
// some. It returns the channel to listen to the next time.
func (s *shift[ID]) rest(ctx context.Context, wake <-chan struct{}) <-chan struct{} {
	timer := time.NewTimer(s.pause(0))
	defer timer.Stop()
	for {
		select {
		case _, open := <-wake:
			if !open {
				wake = nil // a closed channel would be ready for ever
				continue
			}
		case <-s.due:
		case <-timer.C:
		case <-ctx.Done():
		}
		return wake
	}
}

// pause returns how long to wait after so many failures in a row.
func (s *shift[ID]) pause(failures int) time.Duration {
	d := s.poll
	for range failures {
		if d >= longestPoll {
			break
		}
		d = min(2*d, longestPoll)
	}
	return d - d/4 + rand.N(d/2+1)
}

// sleep waits until d has passed, or ctx is done, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
