package drivers_test

import (
	"context"
	"encoding/json"
	"math"
	"math/big"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// execute is what all drivers are compared with.
func execute(s *stage) error { return s.policy.Execute(s.ctx, s.op) }

// unobserved is a driver without an Observer, which takes shorter ways through the
// code.
func unobserved(drive driver) driver {
	return func(s *stage) error {
		s.policy.Observer = nil
		return drive(s)
	}
}

// loop is the loop that a Call is made for.
func loop(s *stage) error {
	call := retry.Call{Policy: &s.policy}
	for call.Next(s.ctx) {
		call.End(s.op(call.Context()))
	}
	return call.Err()
}

// storedLoop has a Call for each attempt. It does the waiting, and writes the state
// down between two attempts.
func storedLoop(s *stage) error {
	stored, last, waited := "{}", error(nil), time.Duration(0)
	for {
		call := retry.Call{Policy: &s.policy, Last: last, Waited: waited}
		require.NoError(s, json.Unmarshal([]byte(stored), &call.State))
		if !call.Begin(s.ctx) {
			return call.Err()
		}
		d := call.End(s.op(call.Context()))
		require.Equal(s, d.Err, call.Err(), "seed %d", s.seed)
		if !d.Retry {
			return d.Err
		}
		require.Equal(s, d.At.Sub(s.now()), d.Delay, "seed %d", s.seed)
		data, err := json.Marshal(d.State)
		require.NoError(s, err)
		stored, last = string(data), call.Last
		if s.sleep(s.ctx, d.Delay) == nil {
			waited += d.Delay
		}
	}
}

// durable is a job whose state is written down, and read again, between any two
// attempts. Nothing else is left of it there.
func durable(through func(*stage, retry.State) retry.State) driver {
	return func(s *stage) error {
		p := &s.policy
		state := through(s, retry.State{First: s.now()})
		for n := 1; ; n++ {
			_, exhausted := p.Exhausted(state, s.now())
			require.False(s, exhausted, "seed %d: the decider has just allowed this attempt", s.seed)
			err := s.op(context.Background())
			now := s.now()
			d := p.Next(state, err, now)
			if err == nil {
				require.Equal(s, retry.Decision{State: state}, d, "seed %d", s.seed)
				s.tell(n, retry.Event{Kind: retry.Succeeded})
				return nil
			}
			require.Equal(s, n, d.State.Failures+d.State.RateLimited, "seed %d: attempts are lost", s.seed)
			if !d.Retry {
				s.tell(n, retry.Event{Kind: retry.GaveUp, Verdict: d.Verdict, Stop: d.Stop, Err: d.Err})
				return d.Err
			}
			require.NoError(s, d.Err, "seed %d", s.seed)
			require.Equal(s, d.Delay, d.At.Sub(now), "seed %d", s.seed)
			s.tell(n, retry.Event{Kind: retry.Retrying, Delay: d.Delay, Verdict: d.Verdict, Err: err})
			state = through(s, d.State)
			_ = s.sleep(context.Background(), d.At.Sub(now))
		}
	}
}

func throughJSON(s *stage, state retry.State) (back retry.State) {
	data, err := json.Marshal(state)
	require.NoError(s, err)
	require.NoError(s, json.Unmarshal(data, &back))
	return back
}

func throughText(s *stage, state retry.State) (back retry.State) {
	text, err := state.MarshalText()
	require.NoError(s, err)
	require.NoError(s, back.UnmarshalText(text))
	return back
}

// tell notes an event that a driver without an Observer would have told.
func (s *stage) tell(attempt int, e retry.Event) {
	e.Policy, e.Attempt, e.Elapsed = s.policy.Name, attempt, s.now().Sub(s.begin)
	s.Observe(s.ctx, e)
}

// byHand is the naive loop: it has nothing of a Call, and asks the decider only. The
// context, its deadline, the timeout of an attempt and the budget are its own affair.
func byHand(s *stage) error {
	p := &s.policy
	state := retry.State{First: s.begin}
	e := &retry.Error{Policy: p.Name}
	for s.ctx.Err() == nil {
		timedOut, err := s.try()
		if err == nil {
			if p.Budget != nil {
				p.Budget.Deposit(s.now())
			}
			s.tell(e.Attempts+1, retry.Event{Kind: retry.Succeeded})
			return nil
		}
		e.Attempts++
		e.Err = err
		if s.ctx.Err() != nil {
			break
		}
		d := s.decide(state, s.judge(err, timedOut))
		switch {
		case d.Retry:
			s.tell(e.Attempts, retry.Event{Kind: retry.Retrying, Delay: d.Delay, Verdict: d.Verdict, Err: err})
		case d.Stop == retry.StopFinal:
			s.tell(e.Attempts, retry.Event{Kind: retry.GaveUp, Verdict: d.Verdict, Stop: d.Stop, Err: err})
			return err
		default:
			e.Stop, e.RetryAfter = d.Stop, d.Verdict.After
			if d.Stop == retry.StopBudget {
				e.RetryAfter = d.Delay
			}
			s.tell(e.Attempts, retry.Event{Kind: retry.GaveUp, Verdict: d.Verdict, Stop: d.Stop, Err: e})
			return e
		}
		if s.sleep(s.ctx, d.Delay) == nil {
			e.Waited += d.Delay
		}
		state = d.State
	}
	e.Stop = retry.StopCanceled
	if s.ctx.Err() == context.DeadlineExceeded {
		e.Stop = retry.StopDeadline
	}
	e.Cause = context.Cause(s.ctx)
	s.tell(e.Attempts, retry.Event{Kind: retry.GaveUp, Stop: e.Stop, Err: e})
	return e
}

// try makes an attempt, and says whether its own timeout has ended it.
func (s *stage) try() (timedOut bool, err error) {
	ctx := s.ctx
	if d := s.policy.AttemptTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = s.withTimeout(ctx, d)
		defer cancel()
	}
	err = s.op(ctx)
	return ctx.Err() != nil && s.ctx.Err() == nil, err
}

// judge is Policy.Classify for an attempt that may have been ended by its timeout.
func (s *stage) judge(err error, timedOut bool) retry.Verdict {
	v, ok := opinion(&s.policy, err)
	switch {
	case ok:
		return v
	case timedOut:
		return retry.Verdict{Class: retry.Retryable, Category: "timeout"}
	default:
		return s.policy.Classify(err)
	}
}

// decide is Policy.Decide with the deadline of the context and the budget.
func (s *stage) decide(state retry.State, v retry.Verdict) retry.Decision {
	p, now := s.policy, s.now()
	drawn := &lastWord{from: p.Rand}
	p.Rand = drawn
	d := p.Decide(state, v, now)
	if !d.Retry {
		return d
	}
	if deadline, ok := s.ctx.Deadline(); ok {
		room := deadline.Sub(now)
		if d.Verdict.After > 0 {
			// The spread of a hint ends before the deadline.
			p.Rand = word(0)
			least := p.Decide(state, v, now).Delay
			p.Rand = word(math.MaxUint64)
			most := p.Decide(state, v, now).Delay
			d.Delay = draw(least, min(most, room-1), drawn.word)
			d.At = now.Add(d.Delay)
		}
		if d.Delay >= room {
			d.Retry, d.Stop = false, retry.StopDeadline
			return d
		}
	}
	if p.Budget != nil && !p.Budget.TryWithdraw(now) {
		d.Retry, d.Stop = false, retry.StopBudget
	}
	return d
}

// draw returns the duration of [least, most] that is at w of all 2⁶⁴ words.
func draw(least, most time.Duration, w uint64) time.Duration {
	if most < least {
		return least
	}
	n := big.NewInt(int64(most-least) + 1)
	n.Mul(n, new(big.Int).SetUint64(w))
	return least + time.Duration(n.Rsh(n, 64).Int64())
}

// word is a source of jitter that always gives itself.
type word uint64

func (w word) Uint64() uint64 { return uint64(w) }

// lastWord remembers the word that was drawn last.
type lastWord struct {
	from retry.Rand
	word uint64
}

func (w *lastWord) Uint64() uint64 {
	w.word = w.from.Uint64()
	return w.word
}
