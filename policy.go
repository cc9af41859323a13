package retry

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// The defaults of the zero [Policy].
const (
	defaultMaxAttempts   = 3
	defaultMaxDelay      = 30 * time.Second
	defaultMaxRetryAfter = time.Minute
	durableMaxRetryAfter = 24 * time.Hour // where nobody waits for the operation
)

// Unlimited is the MaxAttempts of a policy that retries until the context ends
// or another limit is reached.
const Unlimited = math.MaxInt

// Policy says when and how often to retry. It is a literal whose zero value is
// a safe default: 3 attempts with waits of up to 2 and 4 seconds, full jitter.
//
// A Policy holds no state. It may be shared by any number of goroutines, copied,
// compared field by field, printed, validated, and stored as JSON or YAML. It must not be changed
// while in use. A nil *Policy is the zero Policy. A setting out of its range runs as the nearest
// in the range or as the default: call [Policy.Validate], which reports it, where the program
// starts.
//
// Use [Policy.Execute] or [Do] to run an operation under it, and [Policy.Next]
// where the state of the operation lives in a database.
type Policy struct {
	// Name appears in errors and events: "task failed after 3 attempts: …".
	Name string

	// MaxAttempts counts every call of the operation, the first included.
	// 0 or less means 3; 1 means no retry. See also [Unlimited].
	MaxAttempts int

	// MaxElapsed limits the time from the start of the first attempt to the start of the last. It
	// does not interrupt an attempt. 0 or less means no limit.
	MaxElapsed time.Duration

	// AttemptTimeout limits one attempt through its context, if the operation heeds that. An
	// attempt that fails after it counts as Retryable. 0 or less means no limit, except
	// [EqualShare], which divides the time left among the attempts left.
	AttemptTimeout time.Duration

	// Timeout limits the whole call, attempts and waits, from the start of the first attempt on:
	// it ends the context of an attempt, and a wait that would end at or after it is not begun.
	// 0 or less means no limit. Progress before its end restarts it; see [MarkProgress].
	Timeout time.Duration

	// ResetAfter makes a failure the first of a new count, as [MarkProgress]
	// does, if its attempt lasted this long. Use it for connections, watches and
	// the like that are restarted forever. 0 or less means never. [Policy.Next]
	// does not know how long an attempt lasted.
	ResetAfter time.Duration

	// Backoff gives the wait before each retry. nil means Exponential{}:
	// 2s, 4s, 8s, …
	Backoff Backoff

	// MaxDelay is a hard cap on every wait, jitter included, but for a wait that the server asked
	// for. 0 or less means 30 seconds, or the backoff's first delay if that is longer. For
	// Constant and Schedule, 0 means no cap: the waits are used as written, and the jitter is
	// around them.
	MaxDelay time.Duration

	// Jitter spreads the waits. nil means FullJitter, but Proportional(0.1) for Constant and
	// Schedule. To a wait that a server asked for, up to 10 % is added, except with NoJitter.
	Jitter Jitter

	// MaxRetryAfter is the longest server's hint that the policy waits for. A
	// longer hint ends the call at once: Error.RetryAfter has it, and a job that stores
	// Error.State can go on then. A Classifier can shorten it; see the examples MaxRetryAfter
	// and State of Error. 0 or less means 1 minute, or MaxDelay if that is longer. In
	// [Policy.Next] and in package retryjob, where the operation waits in a row or a queue, it
	// means 1 day.
	MaxRetryAfter time.Duration

	// FreeRateLimits is how many RateLimited failures with a hint cost no
	// attempt, per call. Further failures count. 0 or less means none.
	FreeRateLimits int

	// NonIdempotent restricts retries to failures that certainly had no effect:
	// [Verdict.NotApplied]. A mark or the Classifier can set it. Classify knows only the step
	// that failed: an operation that has charged a card, and then cannot connect to the next
	// server, had an effect. If the operation is one call to one server, set Classifier to
	// [Classify]. Protocol packages, such as retryhttp, check by themselves what was sent.
	NonIdempotent bool

	// Classifier is asked about errors that are not marked, before [Classify].
	// It runs on the goroutine of the caller and must not block.
	Classifier Classifier

	// Overrides replaces settings for failures of one kind. Each field is taken from the Override
	// of the verdict's Category, else from that of its class name ("unknown", "retryable",
	// "rate_limited", "pending"), else from the policy. A limit is compared with
	// State.Failures, or after a Pending attempt with State.Pending: see
	// [MarkPending] and [Verdict].NotStarted.
	Overrides map[string]Override

	// Budget limits the extra load of retries, over all calls that share it: a
	// [*Budget], or a Throttle of your own. nil means none.
	Budget Throttle

	// Quota gives the attempts of all calls that share a limit their turns: a
	// *retryquota.Quota, or a Pacer of your own. nil means none. With it, a RateLimited failure
	// takes nothing from the Budget, and costs no attempt up to 100 times per call, or
	// FreeRateLimits times. Only one policy on the way of a call may have it, either the
	// Worker's or the HTTP client's in its work: two would take two turns.
	Quota Pacer

	// Observer is told about every retry and the end of every call. nil means
	// none.
	Observer *Observer

	// Clock tells the time and waits. nil means the system's.
	Clock Clock

	// Rand is the source of jitter. It must be safe for concurrent use if the Policy is shared,
	// which a *rand.Rand is not. nil means the global source of math/rand/v2.
	Rand rand.Source
}

// Override replaces settings of a [Policy] for failures of one kind. A zero
// field keeps the policy's setting.
type Override struct {
	MaxAttempts int
	Backoff     Backoff
	Jitter      Jitter
	MaxDelay    time.Duration
}

var zeroPolicy = &Policy{}

func (p *Policy) orZero() *Policy {
	if p == nil {
		return zeroPolicy
	}
	return p
}

// overridden returns p with the Overrides for failures of this kind applied.
func (p *Policy) overridden(f *known.Fact) Policy {
	q := *p
	q.Overrides = nil
	switch {
	case f.Flags.Has(known.NotStarted):
		q.MaxAttempts, q.Backoff, q.MaxDelay = Unlimited, Exponential{Initial: time.Second}, longestStart
		if q.MaxElapsed <= 0 && q.Timeout <= 0 {
			q.MaxElapsed = mostStarting
		}
		q.apply(p.Overrides[notStarted])
	case f.Class == known.Pending:
		q.MaxAttempts = Unlimited
		fallthrough
	default:
		q.apply(p.Overrides[Class(f.Class).String()])
	}
	if f.Category != "" {
		q.apply(p.Overrides[f.Category])
	}
	return q
}

func (p *Policy) apply(o Override) {
	if o.MaxAttempts > 0 {
		p.MaxAttempts = o.MaxAttempts
	}
	if o.Backoff != nil {
		p.Backoff = o.Backoff
	}
	if o.Jitter != nil {
		p.Jitter = o.Jitter
	}
	if o.MaxDelay > 0 {
		p.MaxDelay = o.MaxDelay
	}
}

// The longest wait for an attempt that could not start, and how long it is tried.
const (
	longestStart = 10 * time.Minute
	mostStarting = 7 * 24 * time.Hour
)

// limit returns the number of attempts.
func (p *Policy) limit() int {
	if p.MaxAttempts <= 0 {
		return defaultMaxAttempts
	}
	return p.MaxAttempts
}

// largestLimit returns the largest number of attempts of p and its Overrides.
func (p *Policy) largestLimit() int {
	limit := p.limit()
	for kind, o := range p.Overrides {
		if kind != Pending.String() && kind != notStarted { // which are counted apart
			limit = max(limit, o.MaxAttempts)
		}
	}
	return limit
}

// freeTurns is the FreeRateLimits of a policy with a Quota: an end if a server never keeps its
// word.
const freeTurns = 100

// freeLimits returns how many failures of a kind cost no attempt.
func (p *Policy) freeLimits(f *known.Fact) int {
	switch {
	case f.Class != known.RateLimited || f.After <= 0 && p.Quota == nil:
		return 0
	case p.FreeRateLimits == 0 && p.Quota != nil && p.limit() > 1:
		return freeTurns
	default:
		return p.FreeRateLimits
	}
}

// spares reports whether the Budget is not asked about a retry after a failure of this kind.
func (p *Policy) spares(f *known.Fact) bool {
	return f.Class == known.Pending || f.Class == known.RateLimited && p.Quota != nil
}

// backoff returns the wait before a retry, without cap and jitter. It is negative if
// the Backoff ends the call.
func (p *Policy) backoff(retry int) time.Duration {
	b := p.Backoff
	if b == nil {
		b = defaultBackoff
	}
	return b.Delay(retry)
}

var defaultBackoff Backoff = Exponential{}

// ceiling returns the cap on every wait.
func (p *Policy) ceiling() time.Duration {
	if p.MaxDelay > 0 {
		return p.MaxDelay
	}
	if largest, written := longest(p.Backoff); written {
		return largest
	}
	return max(defaultMaxDelay, p.backoff(1))
}

// jitter returns how waits are spread.
func (p *Policy) jitter() Jitter {
	if p.Jitter != nil {
		return p.Jitter
	}
	if _, written := longest(p.Backoff); written {
		return Proportional(0.1)
	}
	return FullJitter
}

// draw caps a wait and applies the jitter with the random word u. A wait of 0
// stays 0.
func (p *Policy) draw(delay time.Duration, u uint64) time.Duration {
	if delay <= 0 {
		return 0
	}
	ceiling := p.ceiling()
	delay = min(delay, ceiling)
	if _, written := longest(p.Backoff); written && p.MaxDelay <= 0 {
		ceiling = sat.Max // the jitter of a written wait is around it
	}
	return clamp(p.jitter().Apply(delay, ceiling, u), ceiling)
}

// maxRetryAfter returns the longest hint to wait for.
func (p *Policy) maxRetryAfter(durable bool) time.Duration {
	longest := defaultMaxRetryAfter
	if durable {
		longest = durableMaxRetryAfter
	}
	return orDefault(p.MaxRetryAfter, max(longest, p.ceiling()))
}

// word draws the random word for the wait after s.
func (p *Policy) word(s *State) uint64 {
	switch {
	case s.Key != "":
		return keyedWord(s)
	case p.Rand != nil:
		return p.Rand.Uint64()
	default:
		return rand.Uint64()
	}
}

// Delay returns the wait after s.Failures failures, as [Policy.Decide] draws it for a failure
// without a hint and an Override; 0 if there was none. With s.Key the wait is the same every time,
// so a daemon that keeps no state can tell from a row whether the job is due.
func (p *Policy) Delay(s State) time.Duration {
	if s.Failures < 1 {
		return 0
	}
	p = p.orZero()
	e, ok := p.Backoff.(Exponential)
	if !ok && p.Backoff != nil || p.Jitter != nil || p.Rand != nil || s.Key != "" || e.Multiplier != 0 && e.Multiplier != 2 {
		return p.delay(s)
	}
	// The usual policy is computed without calls, which would be most of the
	// cost: a stateless daemon asks for every row.
	initial, ceiling := orDefault(e.Initial, defaultInitial), p.MaxDelay
	if ceiling <= 0 {
		ceiling = max(defaultMaxDelay, initial)
	}
	return uniform(0, min(doubled(initial, s.Failures-1), ceiling), rand.Uint64())
}

// delay is Delay for any policy.
//
//go:noinline
func (p *Policy) delay(s State) time.Duration {
	if d := p.backoff(s.Failures); d > 0 {
		return p.draw(d, p.word(&s))
	}
	return 0
}

// LongestWait returns the longest wait of [Policy.Next], with hints and Overrides, without jitter.
func (p *Policy) LongestWait() time.Duration {
	p = p.orZero()
	d := max(p.ceiling(), p.maxRetryAfter(true))
	for _, o := range p.Overrides {
		q := *p
		q.apply(o)
		d = max(d, q.ceiling(), q.maxRetryAfter(true))
	}
	return d
}

// Bounds returns the shortest and the longest wait before a retry, without
// hints and Overrides. The first retry has number 1.
func (p *Policy) Bounds(retry int) (lo, hi time.Duration) {
	p = p.orZero()
	delay := p.backoff(retry)
	return p.draw(delay, 0), p.draw(delay, math.MaxUint64)
}

// EqualShare is the AttemptTimeout that divides the time left equally among the attempts
// left: until the end of Timeout or the deadline of the context of the call, whichever comes
// first, by MaxAttempts - State.Failures. If an Override has allowed more than MaxAttempts, its
// MaxAttempts counts. The last attempt has all the time left, and so no timeout of its own.
//
// Waits are not subtracted, because nobody knows them. With neither a Timeout nor a deadline, or
// with [Unlimited] attempts, there is no attempt timeout. A Durable [Call] divides only the
// Timeout: the deadline of its context is a limit of one attempt.
const EqualShare time.Duration = math.MinInt64

// equalShare returns the timeout of the attempt after the failures of s if left is the
// time for all attempts left, or 0 for an attempt without a timeout of its own.
func (p *Policy) equalShare(s *State, left time.Duration) time.Duration {
	failures, limit := max(s.Failures, 0), p.limit()
	if failures >= limit {
		limit = p.largestLimit()
	}
	if limit-failures <= 1 || limit == Unlimited || left == sat.Max {
		return 0
	}
	return max(left/time.Duration(limit-failures), 1)
}
