package service

import (
	"math/rand/v2"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/throttle"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// Strategy is how clients retry: a policy of this library and, if not nil, what
// holds its retries back, made anew for every client.
type Strategy struct {
	Name     string
	Policy   retry.Policy
	Budget   func() *retry.Budget     // of this library
	Throttle func() throttle.Throttle // a model of others

	// Cooldown, as in retryhttp.Transport, gives each client a Quota with this MaxHold.
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
	line      []int32       // calls that wait for a turn
	asks      time.Duration // when the first of them asks again
	clock     *clock        // of the Quota
}

// clock tells the time of the simulation to a Quota.
type clock struct {
	retry.Clock
	now time.Time
}

// Now implements [retry.Clock].
func (c *clock) Now() time.Time { return c.now }

func (s *Strategy) newClient(jitter *rand.Rand) client {
	c := client{policy: s.Policy, throttle: throttle.None{}, freeHints: s.FreeHints}
	if s.Cooldown > 0 {
		c.policy.Quota = &retryquota.Quota{MaxHold: s.Cooldown}
		c.clock = new(clock)
		c.policy.Clock = c.clock
	}
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

// take takes a turn for a call, or returns how long to wait for it.
func (c *client) take(call *call, now time.Duration) (wait time.Duration) {
	if c.policy.Quota == nil {
		return 0
	}
	call.turn, _, wait = c.policy.Quota.Take(c.at(now), 1)
	return wait
}

// at returns the policy of the client at a time.
func (c *client) at(now time.Duration) *retry.Policy {
	c.clock.now = epoch.Add(now)
	return &c.policy
}

// late reports whether the time of a call that waits for its turn is over.
func (c *client) late(call *call, now time.Duration) bool {
	return c.policy.Timeout > 0 && now-call.begun >= c.policy.Timeout
}

// tell tells the Quota how an attempt has ended.
func (c *client) tell(call *call, err error, v retry.Verdict, now time.Duration) {
	if c.policy.Quota != nil {
		c.policy.Quota.Tell(c.at(now), call.turn, err, v)
	}
}

// succeeded settles an attempt that succeeded.
func (c *client) succeeded(call *call, now time.Duration) {
	c.throttle.Done(int(call.attempts), true, now)
	c.tell(call, nil, retry.Verdict{}, now)
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
	c.tell(call, err, verdict, now)
	free := c.freeHints && verdict.After > 0 || c.policy.Quota != nil && verdict.Class == retry.RateLimited
	if !d.Retry || !free && !c.withdraw(now) || !c.throttle.Allow(attempt+1, now) {
		return 0, false
	}
	return d.Delay, true
}

// withdraw reports whether the Budget allows a retry.
func (c *client) withdraw(now time.Duration) bool {
	return c.policy.Budget == nil || c.policy.Budget.TryWithdraw(epoch.Add(now))
}

// initial is the first wait of all strategies that back off.
const initial = 100 * time.Millisecond

// NoRetries is what every other strategy is compared with.
func NoRetries() Strategy {
	return Strategy{Name: "no retries", Policy: retry.Policy{MaxAttempts: 1}}
}

// Immediate retries without waiting.
func Immediate(attempts int) Strategy {
	return Strategy{Name: "naive", Policy: retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(0)}}
}

// Fixed retries after 100 ms.
func Fixed(attempts int) Strategy {
	return Strategy{Name: "fixed 100 ms", Policy: retry.Policy{
		MaxAttempts: attempts, Backoff: retry.Constant(initial), Jitter: retry.NoJitter,
	}}
}

// Exponential backs off, with some jitter, and without a budget.
func Exponential(attempts int, j retry.Jitter) Strategy {
	return Strategy{Name: "exponential", Policy: backoff(attempts, j)}
}

// Budgeted is Exponential with 3 attempts, full jitter, and a Budget.
func Budgeted(budget func() *retry.Budget) Strategy {
	return Strategy{Name: "ours", Policy: backoff(3, retry.FullJitter), Budget: budget}
}

// Throttled is Exponential with 3 attempts, full jitter, and what others hold
// retries back with.
func Throttled(name string, t func() throttle.Throttle) Strategy {
	return Strategy{Name: name, Policy: backoff(3, retry.FullJitter), Throttle: t}
}

func backoff(attempts int, j retry.Jitter) retry.Policy {
	return retry.Policy{MaxAttempts: attempts, Backoff: retry.Exponential{Initial: initial}, MaxDelay: 20 * time.Second, Jitter: j}
}
