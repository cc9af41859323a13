package drivers_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

const ms = time.Millisecond

// scenario is a random policy and a script of outcomes, all from one seed.
type scenario struct {
	seed    uint64
	policy  retry.Policy // without the fields that a driver sets
	start   time.Time
	script  []outcome
	timeout time.Duration // of the context; 0 means none
	cancel  time.Duration // when the context is canceled; 0 means never
	budget  *bounds       // nil means no budget
}

// bounds are the settings of a budget.
type bounds struct {
	ratio   float64
	reserve int
}

// outcome is the outcome of an attempt: it takes its time and then fails with
// err, or succeeds.
type outcome struct {
	took time.Duration
	heed heed
	err  error
}

// heed is the reaction of an attempt to the end of its context.
type heed uint8

const (
	ignores heed = iota // it takes its time
	hurries             // it ends at once, as it would have ended
	fails               // it fails at once with the error of the context
	hides               // it fails at once with an error that does not give the cause
)

var (
	errHopeless = errors.New("hopeless")
	errHidden   = errors.New("killed")
)

// someOf returns a random one.
func someOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func newScenario(seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, seed))
	zone := time.FixedZone("", someOf(r, 0, 3600, -12600))
	sc := &scenario{
		seed:    seed,
		start:   time.Unix(r.Int64N(1<<32), someOf[int64](r, 0, 1, 999_999_999)).In(zone),
		policy:  scenarioPolicy(r),
		timeout: someOf(r, 0, 0, 0, 0, 0, 0, 0, 0, 1, time.Second, 5*time.Second, 30*time.Second, 5*time.Minute),
		cancel:  someOf(r, 0, 0, 0, 0, 0, 0, 0, 500*ms, 4*time.Second, time.Minute),
	}
	if r.IntN(5) < 2 {
		sc.budget = &bounds{ratio: someOf[float64](r, 0, 1), reserve: someOf(r, 0, 1, 2, retry.NoReserve)}
	}
	for i := range 1 + r.IntN(15) {
		sc.script = append(sc.script, outcome{
			took: someOf(r, 0, 0, 0, 1, 300*ms, time.Second, 7*time.Second, 2*time.Minute),
			heed: someOf(r, ignores, hurries, fails, hides),
			err:  scenarioError(r, i),
		})
	}
	return sc
}

func scenarioPolicy(r *rand.Rand) retry.Policy {
	p := retry.Policy{
		Name:           someOf(r, "", "task"),
		MaxAttempts:    someOf(r, 0, 1, 2, 4, 8, 8, 8, retry.Unlimited, retry.Unlimited),
		MaxElapsed:     someOf(r, 0, 0, 0, time.Second, 10*time.Second, 2*time.Minute, time.Hour),
		AttemptTimeout: someOf(r, 0, 0, 0, 0, time.Second, 3*time.Second),
		Timeout:        someOf(r, 0, 0, 0, 0, 0, 0, 0, time.Second, 10*time.Second, 2*time.Minute),
		ResetAfter:     someOf(r, 0, 0, 0, 0, 0, time.Second, 7*time.Second),
		Backoff:        scenarioBackoff(r),
		MaxDelay:       someOf(r, 0, 0, 500*ms, 5*time.Second, time.Hour),
		Jitter:         scenarioJitter(r),
		MaxRetryAfter:  someOf(r, 0, 0, time.Second, 20*time.Second, time.Hour),
		FreeRateLimits: someOf(r, 0, 0, 1, 2, 5),
		NonIdempotent:  r.IntN(5) == 0,
		Classifier: someOf(
			r, nil,
			retry.On(retry.Final, errHopeless),
			retry.Chain(nil, retry.ThroughGiveUp),
			func(err error) retry.Verdict {
				if errors.Is(err, syscall.ECONNRESET) {
					return retry.Verdict{After: 3 * time.Second, Category: "busy"}
				}
				return retry.Verdict{}
			},
		),
	}
	for _, kind := range []string{"unknown", "retryable", "rate_limited", "pending", "busy", "locked", "timeout"} {
		if r.IntN(6) > 0 {
			continue
		}
		if p.Overrides == nil {
			p.Overrides = map[string]retry.Override{}
		}
		p.Overrides[kind] = retry.Override{
			MaxAttempts: someOf(r, 0, 1, 2, 6),
			Backoff:     scenarioBackoff(r),
			Jitter:      scenarioJitter(r),
			MaxDelay:    someOf(r, 0, 0, 2*time.Second, time.Minute),
		}
	}
	return p
}

func scenarioBackoff(r *rand.Rand) retry.Backoff {
	d := someOf(r, 1, 10*ms, 999*ms, time.Second, 40*time.Second)
	return someOf[retry.Backoff](
		r, nil, nil,
		retry.Exponential{Initial: d, Multiplier: someOf(r, 0, 1, 1.5, 3)},
		retry.Linear{Initial: d, Step: someOf(r, 0, time.Second)},
		retry.Fibonacci{Initial: d},
		retry.Constant(0),
		retry.Constant(d),
		retry.Schedule{d, 0, 3 * d},
		retry.Schedule{},
		backoffFunc(func(n int) time.Duration { return time.Duration(2-n) * d }), // then it says stop
		backoffFunc(func(n int) time.Duration { return time.Duration(1-n) * d }),
	)
}

// backoffFunc is a Backoff of a user.
type backoffFunc func(n int) time.Duration

func (f backoffFunc) Delay(n int) time.Duration { return f(n) }

func scenarioJitter(r *rand.Rand) retry.Jitter {
	return someOf[retry.Jitter](
		r, nil, nil,
		retry.FullJitter, retry.EqualJitter, retry.NoJitter,
		retry.Proportional(0.3), retry.Proportional(1), retry.PlusMinus(2*time.Second),
	)
}

// scenarioError returns the error of attempt i, which may be nil. No two attempts
// have the same error.
func scenarioError(r *rand.Rand, i int) error {
	err := fmt.Errorf("attempt %d failed", i+1)
	hint := someOf(r, -time.Second, 0, 1, 400*ms, time.Second, 3*time.Second, 25*time.Second, time.Minute, 2*time.Hour)
	switch r.IntN(26) {
	case 0:
		return nil
	case 1:
		return retry.MarkFinal(err)
	case 2:
		return fmt.Errorf("%w: %w", err, errHopeless)
	case 3:
		return someOf(r, fmt.Errorf("%w: %w", err, fs.ErrNotExist), err)
	case 4:
		return fmt.Errorf("%w: %w", err, syscall.ECONNREFUSED)
	case 5:
		return fmt.Errorf("%w: %w", err, syscall.ECONNRESET)
	case 6:
		return fmt.Errorf("%w: %w", err, context.DeadlineExceeded)
	case 7, 8:
		return retry.MarkRetryable(err)
	case 9:
		return fmt.Errorf("wrapped: %w", retry.MarkRetryable(err))
	case 10, 11:
		return retry.MarkRateLimited(err, hint)
	case 12:
		return errors.Join(err, hintError(hint))
	case 13:
		return retry.Mark(err, retry.Verdict{Class: retry.Retryable, Category: "locked", NotApplied: r.IntN(2) == 0})
	case 14:
		return retry.Mark(err, retry.Verdict{After: hint, Category: "busy"})
	case 15:
		return retry.Mark(err, retry.Verdict{Class: retry.Retryable, After: hint})
	case 16:
		return &retry.Error{Attempts: 2, Err: err, Stop: someOf(r, retry.StopAttempts, retry.StopDeadline, retry.StopRetryAfter), RetryAfter: hint}
	case 17:
		return someOf(r, fmt.Errorf("%w: %w", err, context.Canceled), err)
	case 18, 19:
		return retry.MarkPending(err)
	case 20:
		return retry.MarkProgress(someOf(r, err, retry.MarkRetryable(err), retry.MarkPending(err)))
	case 21:
		return retry.Mark(err, retry.Verdict{
			Class: someOf(r, retry.Unknown, retry.Retryable, retry.RateLimited, retry.Pending),
			After: hint, Exact: true, Progress: r.IntN(3) == 0,
		})
	default:
		return err
	}
}

// hintError is an error of another library that carries a hint.
type hintError time.Duration

func (e hintError) Error() string { return "slow down" }

func (e hintError) RetryAfter() time.Duration { return time.Duration(e) }

// outcome returns the outcome of attempt i. Attempts after the end of the
// script succeed.
func (sc *scenario) outcome(i int) outcome {
	if i < len(sc.script) {
		return sc.script[i]
	}
	return outcome{heed: fails}
}

// The following methods adapt the scenario to a driver.

// change returns a changed copy.
func (sc *scenario) change(fn func(*scenario)) *scenario {
	changed := *sc
	changed.script = append([]outcome{}, sc.script...)
	fn(&changed)
	return &changed
}

// endless has a context that does not end.
func (sc *scenario) endless() *scenario {
	return sc.change(func(sc *scenario) { sc.timeout, sc.cancel = 0, 0 })
}

// alone has only the policy and the script, like Policy.Next: no context that ends, no
// timeout that ends an attempt, no budget, and no ResetAfter.
func (sc *scenario) alone() *scenario {
	return sc.endless().change(func(sc *scenario) {
		sc.policy.AttemptTimeout, sc.policy.ResetAfter, sc.budget = 0, 0, nil
		for i := range sc.script {
			if sc.policy.Timeout > 0 {
				sc.script[i].took = 0
			}
		}
	})
}

// apart has contexts that never end in the same nanosecond as an attempt or a wait:
// on a real clock, chance decides which of the two is seen first.
func (sc *scenario) apart() *scenario {
	return sc.change(func(sc *scenario) {
		for d, by := range map[*time.Duration]time.Duration{
			&sc.policy.AttemptTimeout: 1009, &sc.policy.Timeout: 1511, &sc.timeout: 2003, &sc.cancel: 4001,
		} {
			if *d > 0 {
				*d += by
			}
		}
	})
}

// explicit has only errors with a mark or with an opinion of the policy's Classifier.
// Their verdicts stay the same. Protocols have opinions of their own about all other
// errors.
func (sc *scenario) explicit() *scenario {
	return sc.change(func(sc *scenario) {
		for i := range sc.script {
			o := &sc.script[i]
			if _, ok := opinion(&sc.policy, o.err); !ok && o.err != nil {
				o.err = retry.Mark(o.err, sc.policy.Classify(o.err))
			}
		}
	})
}

// attentive has no attempt that succeeds after its context has ended, because then
// a transaction cannot be committed, and a command cannot be started.
func (sc *scenario) attentive() *scenario {
	return sc.change(func(sc *scenario) {
		for i := range sc.script {
			if o := &sc.script[i]; o.err == nil {
				o.heed = fails
			}
		}
	})
}

// opinion returns the verdict of a mark or of the policy's Classifier.
func opinion(p *retry.Policy, err error) (v retry.Verdict, ok bool) {
	const none = "nobody has an opinion"
	q := *p
	q.Classifier = retry.Chain(p.Classifier, func(error) retry.Verdict { return retry.Verdict{Category: none} })
	v = q.Classify(err)
	return v, v.Category != none
}
