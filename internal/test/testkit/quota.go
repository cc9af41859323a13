package testkit

import (
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

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
