package testkit

import (
	"errors"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// Window is an API that takes so many requests in each window of time, and tells the others when
// the next window begins. The first one begins with the first request.
type Window struct {
	Limit  int
	Length time.Duration

	mu              sync.Mutex
	began           time.Time
	used            int
	served, refused int
}

// Ask makes a request. A refusal is a rate limit with a hint.
func (w *Window) Ask() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.began.IsZero() {
		w.began = now
	}
	if passed := now.Sub(w.began); passed >= w.Length {
		w.began, w.used = w.began.Add(passed.Truncate(w.Length)), 0
	}
	if w.used == w.Limit {
		w.refused++
		return retry.MarkRateLimited(errors.New("too many requests"), w.Length-now.Sub(w.began))
	}
	w.used++
	w.served++
	return nil
}

// Answers returns how many requests were served, and how many refused.
func (w *Window) Answers() (served, refused int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served, w.refused
}

// LimitedQuota is a Quota behind a limit, with four attempts that wait. It is for a bubble of
// synctest, because it waits for turns.
func LimitedQuota() *retryquota.Quota {
	q := &retryquota.Quota{}
	for range 20 {
		turn, n, wait := q.Take(nil, 5)
		for range n {
			q.Tell(nil, turn, nil, retry.Verdict{})
		}
		time.Sleep(wait)
	}
	turn, n, _ := q.Take(nil, 5)
	q.Return(nil, turn, n-1)
	q.Tell(nil, turn, ErrPeer, retry.Verdict{Class: retry.RateLimited, After: 30 * time.Second})
	return q
}
