package retrytable

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// limits are the kinds and keys whose jobs wait for turns of a Quota. A job is claimed, and has no
// turn: it is given back at once, and its kind or key is a limit from now on. Claims leave out the
// jobs of limits. The jobs of each limit are claimed apart, as many as have turns, until fewer are
// due than there are turns. So each job is claimed once, and they keep their order.
type limits struct {
	mu    sync.Mutex
	all   map[sqltable.Owner]*limit
	first bool // the jobs of limits are claimed before the others, each second time
}

// limit is one of them.
type limit struct {
	sqltable.Owner

	next  time.Time // when to look whether there is a turn
	until time.Time // when to ask for one, as the Quota has said
	more  bool      // more than one job is due, as far as is known
}

const mostLimits = 1000

// turns are where the turns of jobs are from, before they are claimed.
type turns struct {
	owner  *sqltable.Owner // nil for those of the Policy of all jobs
	policy *retry.Policy
	quota  retry.Pacer
}

// takeTurns takes turns for up to n jobs. If there are fewer, wait is until there may be more. For no
// job, it asks for none and wait is more than 0 if there is none now.
func (s *claiming[ID]) takeTurns(from *turns, n int) (turn retry.Turn, granted int, wait time.Duration) {
	err := engine.Guard("Quota", func() error {
		turn, granted, wait = from.quota.Take(from.policy, n)
		return nil
	})
	if err != nil {
		s.report(err)
		return 0, 0, longestPoll
	}
	switch granted = min(max(granted, 0), n); {
	case granted < n:
		wait = max(wait, time.Millisecond)
	case n > 0:
		wait = 0
	}
	return turn, granted, wait
}

// longestHold is how long a policy that was exchanged, a hold that is over early, or a job behind
// jobs that are held goes unnoticed.
func (s *running[ID]) longestHold() time.Duration { return comebacksWithin * s.poll }

// giveBack returns turns that were not used.
func (s *running[ID]) giveBack(from *turns, turn retry.Turn, n int) {
	if turn == 0 || n <= 0 {
		return
	}
	if err := engine.Guard("Quota", func() error { from.quota.Return(from.policy, turn, n); return nil }); err != nil {
		s.report(err)
	}
}

// limited notes that a job has no turn, and may ask again after wait. It returns when the job is
// due again.
func (s *running[ID]) limited(job *Job[ID], wait time.Duration) (due time.Duration) {
	owner := sqltable.Owner{Name: job.Kind}
	switch {
	case job.policy.Quota == nil:
		owner = sqltable.Owner{Key: true, Name: job.Key}
	case s.PolicyFor == nil:
		return wait
	}
	now, l := time.Now(), &s.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	switch known := l.all[owner]; {
	case known != nil:
		known.more = true
	case len(l.all) >= mostLimits:
		return wait
	default:
		if l.all == nil {
			l.all = map[sqltable.Owner]*limit{}
		}
		l.all[owner] = &limit{Owner: owner, next: now.Add(min(wait, s.longestHold())), until: now.Add(wait), more: true}
	}
	s.back.add(now, wait)
	return 0
}

// owners are the kinds and keys whose jobs others leave out.
func (l *limits) owners() (all []sqltable.Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner := range l.all {
		all = append(all, owner)
	}
	return all
}

// due returns those that may have turns by now, the one that waits for longest first.
func (l *limits) due(now time.Time) (some []*limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if !one.next.After(now) {
			some = append(some, one)
		}
	}
	slices.SortFunc(some, func(a, b *limit) int { return a.next.Compare(b.next) })
	return some
}

// next returns when there may be the next turn, or zero if nobody waits.
func (l *limits) next() (at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if at.IsZero() || one.next.Before(at) {
			at = one.next
		}
	}
	return at
}

func (l *limits) drop(one *limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, one.Owner)
}

// wants reports whether more than one job of a limit is due.
func (l *limits) wants(one *limit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return one.more
}

// claimLimited claims jobs of limits, as many as have turns, until b has enough.
func (s *claiming[ID]) claimLimited(b *batch[ID], n int, isEnough func() bool) error {
	for _, l := range s.limits.due(time.Now()) {
		if isEnough() {
			break
		}
		if err := s.claimOf(b, l, n-len(b.rows)); err != nil {
			return err
		}
	}
	return nil
}

// claimOf claims up to n jobs of a limit. A claim that has taken long is repeated after a longer
// pause, because the jobs of others are in its way.
func (s *claiming[ID]) claimOf(b *batch[ID], l *limit, n int) error {
	from := s.turnsOf(l)
	if from.quota == nil { // its policy was exchanged, or it has none any more
		s.limits.drop(l)
		return nil
	}
	if !s.limits.wants(l) {
		n = 1
	}
	began := time.Now()
	if began.Before(l.until) {
		if _, _, held := s.takeTurns(from, 0); held > 0 {
			l.next = sooner(l.until, began.Add(s.longestHold()))
			return nil
		}
	}
	turn, granted, wait := s.takeTurns(from, n)
	if l.next, l.until = began.Add(min(wait, s.longestHold())), began.Add(wait); granted == 0 {
		return nil
	}
	some := sqltable.Some{N: granted, Of: &l.Owner}
	if l.Key { // the jobs of a kind that waits have no use for a turn of their key
		some.But = slices.DeleteFunc(s.limits.owners(), func(o sqltable.Owner) bool { return o.Key })
	}
	rows, err := take(s, &s.refusing.claim, s.statements.Claim, some, s.ClaimArgs, scanRow[ID])
	b.add(rows, began.Add(s.lease), turn, from)
	s.giveBack(from, turn, granted-len(rows))
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	l.more = len(rows) == granted
	switch now := time.Now(); {
	case err != nil:
	case !l.more:
		delete(s.limits.all, l.Owner)
	case now.Sub(began) > slowClaim:
		l.next = later(l.next, now.Add(s.pauseAfter(now.Sub(began), 10)))
	}
	return err
}

// pauseAfter is how long a statement that took so long is not repeated: times as long, but not much
// longer than a hold, and always so that it takes a part of the time only.
func (s *claiming[ID]) pauseAfter(took time.Duration, times int) time.Duration {
	return min(time.Duration(times)*took, max(s.longestHold(), 3*took))
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// turnsOf returns where the turns of a limit are from now.
func (s *claiming[ID]) turnsOf(l *limit) *turns {
	from := &turns{owner: &l.Owner, policy: s.Policy}
	err := engine.Guard("QuotaFor", func() (err error) {
		if l.Key {
			from.quota = s.QuotaFor(l.Name)
			return nil
		}
		if from.policy, err = retryjob.PolicyFor(l.Name, s.Policy, s.PolicyFor); err == nil && from.policy != nil {
			from.quota = from.policy.Quota
		}
		return err
	})
	if err != nil {
		from.quota = nil // each job tells
	}
	return from
}

// ahead are the IDs of jobs that are due, in their order, but those of limits. A claim that goes past
// the jobs of limits may take long, so one look finds many.
type ahead struct {
	ids    []any
	all    bool          // no more were due
	took   time.Duration // the look
	looked time.Time     // when it began
	again  time.Time     // when it is time for another one, if it was too early for one; else zero
}

const (
	slowClaim   = 5 * time.Millisecond
	fewAhead    = 1000   // of a look
	mostAhead   = 10_000 // of a look after one that took long
	shareOfLook = 20     // a look takes one part in so many of the time, unless that is a longestHold
)

// claimPast claims up to n jobs but those of limits. short says that no more are due, as far as is
// known.
func (s *claiming[ID]) claimPast(n int) (rows []Row[ID], short bool, err error) {
	a, some := &s.ahead, sqltable.Some{N: n, But: s.limits.owners()}
	if a.again = (time.Time{}); len(some.But) > 0 && !s.refusing.claim.isDue() {
		if err := s.look(some); err != nil || len(a.ids) == 0 {
			return nil, err == nil, err
		}
		if rows, err = s.claimAhead(some); err == nil {
			return rows, a.all && len(a.ids) == 0, nil
		}
	}
	*a = ahead{}
	rows, err = take(s, &s.refusing.claim, s.statements.Claim, some, s.ClaimArgs, scanRow[ID])
	return rows, len(rows) < n, err
}

// look looks for jobs if it is time.
func (s *claiming[ID]) look(some sqltable.Some) (err error) {
	a, began, n := &s.ahead, time.Now(), fewAhead
	switch next := a.looked.Add(s.pauseAfter(a.took, shareOfLook)); {
	case len(a.ids) > 0:
		if began.Before(later(next, a.looked.Add(s.poll))) {
			return nil
		}
	case a.all && began.Before(next):
		a.again = next
		return nil
	}
	if a.took > slowClaim {
		n = mostAhead
	}
	t := &taking[ID, Row[ID]]{claiming: s, from: s.statements.Claim, some: some, args: s.ClaimArgs}
	a.ids, err = t.look(s.refusing.claim.without(), n)
	a.all, a.took, a.looked = len(a.ids) < n, time.Since(began), began
	return err
}

// claimAhead claims the next jobs that a look has found. It asks for no more IDs than jobs: with
// more, PostgreSQL may look for them in the order of their index.
func (s *claiming[ID]) claimAhead(some sqltable.Some) ([]Row[ID], error) {
	a := &s.ahead
	ids := a.ids[:min(some.N, len(a.ids))]
	t := &taking[ID, Row[ID]]{claiming: s, from: s.statements.Claim, some: some, args: s.ClaimArgs, scan: scanRow[ID]}
	if err := t.take(ids, true, s.patience()); err != nil {
		return nil, err
	}
	if a.ids = a.ids[len(ids):]; len(t.all) == 0 && len(a.ids) > some.N { // another worker is here
		n := rand.N(len(a.ids))
		a.ids = slices.Concat(a.ids[n:], a.ids[:n])
	}
	return t.all, nil
}
