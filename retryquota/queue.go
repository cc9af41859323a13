package retryquota

import "time"

// queue is a list of entries in the order of their arrival.
type queue struct {
	first, last *entry
	n           int
}

// insert puts an entry behind those that are as old, or older. It looks from both ends, because who
// comes is new, or was refused.
func (q *queue) insert(e *entry) {
	e.in, q.n = q, q.n+1
	before, after := q.last, q.first
	for before != nil && e.since.Before(before.since) && !e.since.Before(after.since) {
		before, after = before.before, after.after
	}
	if before != nil && e.since.Before(before.since) {
		before = after.before
	}
	if e.before = before; before == nil {
		e.after, q.first = q.first, e
	} else {
		e.after, before.after = before.after, e
	}
	if e.after == nil {
		q.last = e
	} else {
		e.after.before = e
	}
}

// due returns the first entry whose owner is to come back by now. Of many, only the first are asked.
func (q *queue) due(now time.Time) *entry {
	for e, n := q.first, 0; e != nil && n < mostLooked; e, n = e.after, n+1 {
		if !e.back.After(now) {
			return e
		}
	}
	return nil
}

// soonest returns when the first owner is to come back, or latest. Of many, only the first are asked.
func (q *queue) soonest(latest time.Time) time.Time {
	for e, n := q.first, 0; e != nil && n < mostLooked; e, n = e.after, n+1 {
		if e.back.Before(latest) {
			latest = e.back
		}
	}
	return latest
}

func (q *queue) remove(e *entry) {
	if e.before == nil {
		q.first = e.after
	} else {
		e.before.after = e.after
	}
	if e.after == nil {
		q.last = e.before
	} else {
		e.after.before = e.before
	}
	e.before, e.after, e.in, q.n = nil, nil, nil, q.n-1
}
