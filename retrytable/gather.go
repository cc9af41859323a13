package retrytable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// gathering is what is to be stored. While a statement stores outcomes, others gather, and
// the next statement stores all of them: an outcome that is alone goes at once.
type gathering[ID any] struct {
	mu         sync.Mutex
	waiting    []*outcome[ID]
	committers int
	latest     time.Time   // when the latest statement began
	late       *time.Timer // looks whether that has ended; nil if nobody waits for it
	running    sync.WaitGroup
	refused    atomic.Bool // the database does not understand the form; everything goes alone
}

// outcome is one outcome on its way.
type outcome[ID any] struct {
	finishing[ID]

	ends   time.Time  // of its lease, at the earliest
	stored chan error // what has become of it; nil, ErrLeaseLost, or another error
}

// errApart is the error of an outcome that was in a group which has failed, or has not
// found its row: it has to be stored alone, and that says why.
var errApart = errors.New("retrytable: not stored with others")

// slow is a statement that is held up by something. Others do not wait for it.
const slow = 100 * time.Millisecond

// together stores an outcome, with others that come meanwhile.
func (s *shift[ID]) together(f *finishing[ID], ends time.Time) error {
	o := &outcome[ID]{*f, ends, make(chan error, 1)}
	g := &s.gathering
	g.mu.Lock()
	g.waiting = append(g.waiting, o)
	g.staff(s.commit)
	g.mu.Unlock()
	return <-o.stored
}

// staff begins to commit unless somebody else soon will have stored what waits.
func (g *gathering[ID]) staff(commit func()) {
	if len(g.waiting) == 0 {
		return
	}
	if g.committers == 0 || time.Since(g.latest) >= slow {
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

// end waits for the last statement.
func (g *gathering[ID]) end() {
	g.running.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.late != nil {
		g.late.Stop()
	}
}

func (g *gathering[ID]) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// commit stores what has gathered until nothing has.
func (s *shift[ID]) commit() {
	for {
		yield(s.gathering.size)
		group := s.gathering.take()
		if group == nil {
			return
		}
		s.storeGroup(group)
	}
}

// take takes what has gathered for the statement of the oldest outcome.
func (g *gathering[ID]) take() (group []*outcome[ID]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.committers--
		return nil
	}
	g.latest = time.Now()
	first := g.waiting[0]
	others := g.waiting[:0]
	for _, o := range g.waiting {
		if len(group) < mostGrouped && o.like(&first.finishing) {
			group = append(group, o)
		} else {
			others = append(others, o)
		}
	}
	clear(g.waiting[len(others):])
	g.waiting = others
	return group
}

// storeGroup stores outcomes with one statement, and tells each what has become of it. If
// the database refuses one of the rows, or does not say which it is, it is looked for in
// halves of the group. Outages are everybody's.
func (s *shift[ID]) storeGroup(group []*outcome[ID]) {
	limit := s.limit(group[0].ends)
	all := make([]*finishing[ID], len(group))
	for i, o := range group {
		all[i], limit = &o.finishing, min(limit, s.limit(o.ends))
	}
	if len(group) == 1 {
		_, err := within(s.ctx, s, limit, func(ctx context.Context) (any, error) { return nil, all[0].exec(ctx, s.DB) })
		group[0].stored <- err
		return
	}
	held, err := within(s.ctx, s, limit, func(ctx context.Context) ([]bool, error) { return storeAll(ctx, s.DB, all) })
	panicked := (*retry.PanicError)(nil) // of a Value method
	switch {
	case rowFault(err), errors.As(err, &panicked), err == nil && !slices.Contains(held, true):
		for _, half := range [][]*outcome[ID]{group[:len(group)/2], group[len(group)/2:]} {
			if len(half) > 1 {
				s.storeGroup(half)
			} else {
				half[0].stored <- errApart
			}
		}
		return
	case formFault(err):
		if s.gathering.refused.CompareAndSwap(false, true) {
			s.report(fmt.Errorf("%w: each outcome is stored by a statement of its own from now on", err))
		}
		err = errApart
	}
	for i, o := range group {
		if err == nil && !held[i] {
			o.stored <- errApart
		} else {
			o.stored <- err
		}
	}
}
