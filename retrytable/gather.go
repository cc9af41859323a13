package retrytable

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// gathering is what is to be stored. While a statement stores a group of outcomes, others
// gather, and the next statement stores all of them: an outcome that comes alone is stored at
// once. Two committers at most store groups, each with a connection. The second one begins
// when the statement of the first one is held up, and does not wait for the lock of a row.
type gathering struct {
	mu         sync.Mutex
	waiting    []*write
	committers int
	patient    bool          // a committer stores an outcome for which it may wait for a lock
	latest     time.Time     // when the latest statement began
	ended      chan struct{} // is closed when any statement ends; nil if none has begun since
	late       *time.Timer   // looks whether the latest has ended; nil if nobody waits for it
	running    sync.WaitGroup
}

const mostCommitters = 2

// slow is how long a statement takes that is held up by something. Others do not wait for it.
const slow = 100 * time.Millisecond

// gather stores an outcome, with others that come meanwhile.
func (s *storing[ID]) gather(w *write) error {
	stored := make(chan error, 1)
	w.tell = func(err error) { stored <- err }
	g := &s.gathering
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.staff(s.commit)
	g.mu.Unlock()
	return <-stored
}

// staff begins to commit, unless a committer is there that will soon store what waits.
func (g *gathering) staff(commit func()) {
	if len(g.waiting) == 0 {
		return
	}
	if g.committers == 0 || g.committers < mostCommitters && time.Since(g.latest) >= slow {
		g.committers++
		g.latest = time.Now()
		g.running.Go(commit)
	}
	if g.late == nil {
		g.late = time.AfterFunc(slow, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.late = nil
			g.staff(commit)
		})
	}
}

// wait waits for the last statement.
func (g *gathering) wait() {
	g.running.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.late != nil {
		g.late.Stop()
	}
}

func (g *gathering) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// commit stores what has gathered until nothing has.
func (s *storing[ID]) commit() {
	g := &s.gathering
	for {
		yield(g.size)
		group, patient := g.take()
		if group == nil {
			return
		}
		s.storeOutcomes(group, patient)
		g.end(patient)
	}
}

func (g *gathering) end(patient bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if patient {
		g.patient = false
	}
	if g.ended != nil {
		close(g.ended)
		g.ended = nil
	}
}

// await waits until one of the statements that store outcomes has ended, but not for long. It reports
// whether one has begun since the last end: one that runs beside others may go unnoticed.
func (g *gathering) await(ctx context.Context) bool {
	g.mu.Lock()
	ended := g.ended
	g.mu.Unlock()
	if ended == nil {
		return false
	}
	timer := time.NewTimer(longestAwait)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	return true
}

const longestAwait = 5 * time.Millisecond

// take takes the oldest outcome and those that can be stored with it. A single outcome may
// wait for the lock of its row, but only one committer may wait so at a time.
func (g *gathering) take() (group []*write, patient bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	others := g.waiting[:0]
	for _, w := range g.waiting {
		switch {
		case len(group) == 0 && (!w.alone || !g.patient),
			len(group) > 0 && len(group) < sqltable.MostGrouped && !w.alone && !group[0].alone && w.GroupsWith(group[0].Change):
			group = append(group, w)
		default:
			others = append(others, w)
		}
	}
	clear(g.waiting[len(others):])
	g.waiting = others
	if len(group) == 0 {
		g.committers--
		return nil, false
	}
	g.latest = time.Now()
	if g.ended == nil {
		g.ended = make(chan struct{})
	}
	if patient = len(group) == 1 && !g.patient; patient {
		g.patient = true
	}
	return group, patient
}

// yield lets other goroutines run, so that those that are about to add something can add it
// before the next statement. It returns when the size has stopped to change, or soon.
func yield(size func() int) {
	start, before := time.Now(), size()
	for runtime.Gosched(); size() != before && time.Since(start) < longestYield; runtime.Gosched() {
		before = size()
	}
}

const longestYield = 100 * time.Microsecond
