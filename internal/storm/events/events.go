// Package events is the clock of a simulation: it holds what will happen and
// hands it out in the order of time.
package events

import (
	"math"
	"time"
)

// Queue is a heap of events of type T. Time begins at 0 and moves only when an
// event is taken. The zero Queue is ready.
type Queue[T any] struct {
	heap []entry[T]
	now  time.Duration
	seq  uint64
}

type entry[T any] struct {
	at   time.Duration
	seq  uint64 // events of one instant happen in the order they were added
	what T
}

func (e *entry[T]) before(f *entry[T]) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

// Now returns the time of the event that was taken last.
func (q *Queue[T]) Now() time.Duration { return q.now }

// After adds what happens when d has passed. A negative d counts as 0, and what
// lies beyond the end of time happens there.
func (q *Queue[T]) After(d time.Duration, what T) {
	at := q.now + max(d, 0)
	if at < q.now {
		at = math.MaxInt64
	}
	q.seq++
	q.heap = append(q.heap, entry[T]{at, q.seq, what})
	q.up(len(q.heap) - 1)
}

// Next takes the earliest event and moves time there. It returns false if there
// is none that happens before end.
func (q *Queue[T]) Next(end time.Duration) (what T, ok bool) {
	if len(q.heap) == 0 || q.heap[0].at >= end {
		return what, false
	}
	first, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	q.down(0)
	q.now = first.at
	return first.what, true
}

func (q *Queue[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if q.heap[parent].before(&q.heap[i]) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *Queue[T]) down(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.heap); child++ {
			if q.heap[child].before(&q.heap[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		q.heap[i], q.heap[first] = q.heap[first], q.heap[i]
		i = first
	}
}
