package service

import (
	"math/rand/v2"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/throttle"
)

// Strategy is how clients retry: a policy of this library and, if not nil, what
// holds its retries back, made anew for every client.
type Strategy struct {
	Name     string
	Policy   retry.Policy
	Budget   func() *retry.Budget     // of this library
	Throttle func() throttle.Throttle // a model of others
}

// epoch is when every simulation begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// client is one process: it shares its budget among its calls, and nothing with
// other clients.
type client struct {
	policy   retry.Policy
	throttle throttle.Throttle
}

func (s *Strategy) newClient(jitter *rand.Rand) client {
	c := client{s.Policy, throttle.None{}}
	c.policy.Rand = jitter
	if s.Budget != nil {
		c.policy.Budget = s.Budget()
	}
	if s.Throttle != nil {
		c.throttle = s.Throttle()
	}
	return c
}

// begin reports whether the first attempt of a call may be made.
func (c *client) begin(call *call, now time.Duration) bool {
	call.state.First = epoch.Add(now)
	return c.throttle.Allow(1, now)
}

// succeeded settles an attempt that succeeded.
func (c *client) succeeded(call *call, now time.Duration) {
	c.throttle.Done(int(call.attempts), true, now)
	if c.policy.Budget != nil {
		c.policy.Budget.Deposit(epoch.Add(now))
	}
}

// failed settles an attempt that failed. It returns the wait before the next
// one, or false if the call has failed.
func (c *client) failed(call *call, why failure, now time.Duration) (time.Duration, bool) {
	attempt := int(call.attempts)
	c.throttle.Done(attempt, false, now)
	verdict := c.policy.Classify(why.err())
	d := c.policy.Decide(call.state, verdict, epoch.Add(now))
	call.state = d.State
	if !d.Retry || c.policy.Budget != nil && !c.policy.Budget.TryWithdraw(epoch.Add(now)) ||
		!c.throttle.Allow(attempt+1, now) {
		return 0, false
	}
	return d.Delay, true
}
