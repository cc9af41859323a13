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

	// Cooldown is that of retryhttp.Transport: a rate limit with a hint holds back all
	// calls of the client, and its retry takes nothing from the Budget.
	Cooldown time.Duration
	// FreeHints lets every retry with a hint take nothing from the Budget.
	FreeHints bool
}

// epoch is when every simulation begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// client is one process: it shares its budget among its calls, and nothing with
// other clients.
type client struct {
	policy    retry.Policy
	throttle  throttle.Throttle
	freeHints bool
	cooldown  time.Duration
	cool      time.Duration // it sends nothing before this
}

func (s *Strategy) newClient(jitter *rand.Rand) client {
	c := client{policy: s.Policy, throttle: throttle.None{}, cooldown: s.Cooldown, freeHints: s.FreeHints}
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

// held returns how long the client holds a call back: as long as for a hint. It returns
// false if the policy does not allow that.
func (c *client) held(call *call, now time.Duration) (time.Duration, bool) {
	if now >= c.cool {
		return 0, true
	}
	v := retry.Verdict{Class: retry.RateLimited, After: c.cool - now}
	d := c.policy.Decide(retry.State{First: call.state.First}, v, epoch.Add(now))
	return d.Delay, d.Retry
}

// succeeded settles an attempt that succeeded.
func (c *client) succeeded(call *call, now time.Duration) {
	c.throttle.Done(int(call.attempts), true, now)
	if c.policy.Budget != nil {
		c.policy.Budget.Deposit(epoch.Add(now))
	}
}

// failed settles an attempt that failed with err. It returns the wait before the next
// one, or false if the call has failed.
func (c *client) failed(call *call, err error, now time.Duration) (time.Duration, bool) {
	attempt := int(call.attempts)
	c.throttle.Done(attempt, false, now)
	verdict := c.policy.Classify(err)
	d := c.policy.Decide(call.state, verdict, epoch.Add(now))
	call.state = d.State
	free := c.freeHints && verdict.After > 0
	if c.cooldown > 0 && verdict.Class == retry.RateLimited && verdict.After > 0 {
		c.cool = max(c.cool, now+min(verdict.After, c.cooldown))
		free = true
	}
	if !d.Retry || !free && !c.withdraw(now) || !c.throttle.Allow(attempt+1, now) {
		return 0, false
	}
	return d.Delay, true
}

// withdraw reports whether the Budget allows a retry.
func (c *client) withdraw(now time.Duration) bool {
	return c.policy.Budget == nil || c.policy.Budget.TryWithdraw(epoch.Add(now))
}
