package retrytable

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/retrytable/internal/dberr"
)

// claiming is the part that takes rows, and has their jobs done.
type claiming[ID any] struct {
	*running[ID]

	ahead ahead // of a claim that goes past the jobs of limits
	more  bool  // the last claim found as many jobs as it wanted

	// What is in the way of the statements that take rows, which share a connection.
	refusing struct{ promote, claim, sweep obstacles }
	lane     sync.Mutex

	touched time.Time // when touch has last asked

	stuck map[string]int // how often the end of a lost job could not be stored
}

// claiming prepares the part.
func (s *running[ID]) claiming() *claiming[ID] {
	return &claiming[ID]{running: s, stuck: map[string]int{}}
}

// claimAll claims jobs and has them done until ctx is done, and returns when they are.
func (s *claiming[ID]) claimAll(ctx context.Context) {
	busy, wake, failures := make(chan struct{}, s.concurrency), s.Wake, failures[ID]{shift: s.shift}
	jobs := hands[*claimed[ID]]{do: func(c *claimed[ID]) { s.work(ctx, c, busy) }, next: make(chan *claimed[ID])}
	defer jobs.wait()
	for {
		free := s.reserve(ctx, busy)
		if free == 0 {
			return
		}
		s.back.looking()
		b, err := s.claim(free)
		for i := range b.rows {
			jobs.take(&b.rows[i])
		}
		for range free - len(b.rows) {
			<-busy
		}
		failures.note(err)
		switch {
		case err != nil:
			sleep(ctx, failures.pause(err))
		case b.short:
			wake = s.rest(ctx, wake, b.next)
		case b.held > 0:
			sleep(ctx, b.held)
		}
	}
}

// hands are goroutines that do jobs. One that has done a job does another one, with the stack that
// has grown already.
type hands[T any] struct {
	do   func(T)
	next chan T
	all  sync.WaitGroup
}

func (h *hands[T]) take(job T) {
	select {
	case h.next <- job:
	default: // nobody is free
		h.all.Go(func() {
			var none T
			for open := true; open; job, open = <-h.next {
				h.do(job)
				job = none // which has the rows that were claimed with it
			}
		})
	}
}

// wait waits until all jobs are done, and nobody takes another one.
func (h *hands[T]) wait() {
	close(h.next)
	h.all.Wait()
}

// few is how many places are few, unless they are all: a statement costs about as much as 30 rows.
const few = 32

// reserve takes all places that are free, and waits for one if none is. It takes none
// when ctx is done.
//
// If only few are free while outcomes are being stored, it waits for the end of that statement,
// which frees more: small claims cost more than large ones.
func (s *claiming[ID]) reserve(ctx context.Context, busy chan struct{}) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case busy <- struct{}{}:
		n++
	}
	yield(func() int { return len(busy) }) // jobs that are about to end free more places
	if s.Turn == nil && cap(busy)-len(busy)+n < min(cap(busy), few) && s.gathering.await(ctx) {
		yield(func() int { return len(busy) })
	}
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

// rest waits until it is time to look for jobs again, one of our own is due again, or somebody
// says that there are some. It returns the channel to listen to the next time. A next that is not
// zero is when there may be turns for jobs that wait for them.
func (s *claiming[ID]) rest(ctx context.Context, wake <-chan struct{}, next time.Time) <-chan struct{} {
	end := time.Now().Add(s.pause(0, longestPoll))
	if !next.IsZero() && next.Before(end) {
		end = next
	}
	timer := time.NewTimer(time.Until(s.back.next(end)))
	defer timer.Stop()
	for {
		select {
		case _, open := <-wake:
			if !open {
				wake = nil // a closed channel would be ready for ever
				continue
			}
		case <-s.back.news:
			timer.Reset(time.Until(s.back.next(end)))
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		return wake
	}
}

// comebacks are when jobs of this Worker are due again, so that they are not late by a Poll.
// Those that are due within a tenth of a Poll of each other are claimed together.
type comebacks struct {
	news chan struct{} // there is one more

	mu    sync.Mutex
	poll  time.Duration
	round time.Duration // up to which the table rounds instants
	at    []time.Time   // sorted
}

// newComebacks is for a table whose instants have a unit of so many microseconds.
func newComebacks(poll time.Duration, unit int) *comebacks {
	c := &comebacks{poll: poll, news: make(chan struct{}, 1)}
	switch unit {
	case 1_000_000:
		c.round = time.Second
	case 1_000:
		c.round = 2 * time.Millisecond // of the due time, and of the time that it is compared with
	default:
	}
	return c
}

// spare is for the clocks, which are not compared.
const spare = 10 * time.Millisecond

// comebacksWithin is how many Polls ahead is noted. A longer wait is late by a tenth at most.
const comebacksWithin = 10

// add notes that a job is due again after d.
func (c *comebacks) add(now time.Time, d time.Duration) {
	if d/comebacksWithin > c.poll {
		return
	}
	at := now.Add(max(d, 0) + c.round)
	if width := c.poll / 10; d > 0 && width > 0 {
		at = at.Add(width + spare).Truncate(width)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, known := slices.BinarySearchFunc(c.at, at, time.Time.Compare); !known {
		c.at = slices.Insert(c.at, i, at)
	}
	select {
	case c.news <- struct{}{}:
	default: // it is known already
	}
}

// looking forgets what is due, because jobs are looked for now.
func (c *comebacks) looking() {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.at, time.Now().Add(1), time.Time.Compare)
	c.at = slices.Delete(c.at, 0, i)
}

// next returns when the next job is due, or end if that is sooner.
func (c *comebacks) next(end time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.at) > 0 && c.at[0].Before(end) {
		return c.at[0]
	}
	return end
}

// pause returns how long to wait after so many failures in a row, up to the longest pause, or
// Poll if that is longer.
func (s *shift[ID]) pause(failures int, longest time.Duration) time.Duration {
	d := s.poll
	for range failures {
		if d >= longest {
			break
		}
		d = min(2*d, longest)
	}
	return d - d/4 + rand.N(d/2+1)
}

// failures are those of a statement in a row.
type failures[ID any] struct {
	*shift[ID]

	inRow int
	told  string // the last error that was told, and when
	at    time.Time
}

// note is told how the statement went, and reports an error. The same answer of the database
// is not reported each time, because the statement is tried again every few seconds.
func (f *failures[ID]) note(err error) {
	if err == nil {
		f.inRow, f.told = 0, ""
		return
	}
	f.inRow++
	if text := err.Error(); !dberr.Answered(err) || text != f.told || time.Since(f.at) > longestTold {
		f.told, f.at = text, time.Now()
		f.report(err)
	}
}

// longestTold is how long the same answer is not reported again.
const longestTold = 5 * time.Minute

// pause is how long to wait after the last failure.
func (f *failures[ID]) pause(err error) time.Duration {
	longest := longestPoll
	if dberr.Answered(err) {
		longest = longestRefusal
	}
	return f.shift.pause(f.inRow, longest)
}

// sleep waits until d has passed, or ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
