package retrytable

import (
	"context"
	"errors"
	"sync"
	"time"
)

// gathering is what is to be stored. While a statement stores outcomes, others gather, and
// the next statement stores all of them: an outcome that is alone goes at once. There are
// two committers at most, each with a connection. The second one begins when the statement
// of the first is held up by something, and never waits for the lock of a row.
type gathering[ID any] struct {
	mu         sync.Mutex
	waiting    []*outcome[ID]
	committers int
	careless   bool        // a committer has something that may take long
	latest     time.Time   // when the latest statement began
	late       *time.Timer // looks whether that has ended; nil if nobody waits for it
	running    sync.WaitGroup
	form       form
}

const mostCommitters = 2

// outcome is one outcome on its way.
type outcome[ID any] struct {
	finishing[ID]

	ends   time.Time                   // of its lease, at the earliest
	alone  bool                        // it is in no group, because something was wrong with it
	ask    func(context.Context) error // is run in its place, if it is not nil
	stored chan error                  // what has become of it; nil, ErrLeaseLost, or another error
}

// errLocked is the error of an outcome whose row somebody else has locked.
var errLocked = errors.New("retrytable: somebody else has locked the row")

// leftOutError is the error of an outcome of a group that was refused, which nobody has tried
// alone.
type leftOutError struct{ error }

// Unwrap returns what is known of the group.
func (e *leftOutError) Unwrap() error { return e.error }

// slow is a statement that is held up by something. Others do not wait for it.
const slow = 100 * time.Millisecond

// together stores an outcome, with others that come meanwhile.
func (s *shift[ID]) together(o *outcome[ID]) error {
	o.stored = make(chan error, 1)
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
	g := &s.gathering
	for {
		yield(g.size)
		group, careless := g.take()
		if group == nil {
			return
		}
		s.storeGroup(group, careless)
		if careless {
			g.mu.Lock()
			g.careless = false
			g.mu.Unlock()
		}
	}
}

// take takes what has gathered for the statement of the oldest outcome. An outcome that is
// alone may take long, so only one committer has such a one.
func (g *gathering[ID]) take() (group []*outcome[ID], careless bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	others := g.waiting[:0]
	for _, o := range g.waiting {
		switch {
		case len(group) == 0 && (!o.alone || !g.careless),
			len(group) > 0 && len(group) < mostGrouped && !o.alone && !group[0].alone && o.like(&group[0].finishing):
			group = append(group, o)
		default:
			others = append(others, o)
		}
	}
	clear(g.waiting[len(others):])
	g.waiting = others
	if len(group) == 0 {
		g.committers--
		return nil, false
	}
	g.latest = time.Now()
	if careless = len(group) == 1 && !g.careless; careless {
		g.careless = true
	}
	return group, careless
}
