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

// execute is the driver that all others are compared with.
func execute(s *stage) error { return s.policy.Execute(s.ctx, s.op) }

// unobserved is a driver without an Observer, which takes shorter paths through
// the code.
func unobserved(drive driver) driver {
	return func(s *stage) error {
		s.policy.Observer = nil
		return drive(s)
	}
}

// loop is the usual loop over a Call.
func loop(s *stage) error {
	call := retry.Call{Policy: &s.policy}
	for call.Next(s.ctx) {
		call.End(s.op(call.Context()))
	}
	return call.Err()
}

// storedLoop has a Call for each attempt. It waits by itself, and stores the state
// between two attempts.
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
			if e, ok := d.Err.(*retry.Error); ok && d.Stop != retry.StopFinal {
				require.Equal(s, d.State, e.State, "seed %d", s.seed)
			}
			return d.Err
		}
		require.Equal(s, d.At.Sub(s.now()), d.Delay, "seed %d", s.seed)
		data, err := json.Marshal(d.State)
		require.NoError(s, err)
		stored, last, waited = string(data), call.Last, call.Waited
		if s.sleep(s.ctx, d.Delay) == nil {
			waited += d.Delay
		}
	}
}

// durable is a job whose state is stored and read again between any two
// attempts. Nothing else is kept.
func durable(through func(*stage, retry.State) retry.State) driver {
	return func(s *stage) error {
		p := &s.policy
		state := through(s, retry.State{First: s.now()})
		for {
			_, exhausted := p.Exhausted(state, s.now())
			require.False(s, exhausted, "seed %d: the decider has just allowed this attempt", s.seed)
			err := s.op(context.Background())
			now := s.now()
			d := p.Next(state, err, now)
			if err == nil {
				require.Equal(s, retry.Decision{State: state}, d, "seed %d", s.seed)
				s.tell(counted(state)+1, state, retry.Event{Kind: retry.Succeeded})
				return nil
			}
			want := counted(state) + 1
			if d.Verdict.Progress {
				want = 1
			}
			require.Equal(s, want, counted(d.State), "seed %d: attempts are lost", s.seed)
			if e, ok := d.Err.(*retry.Error); ok && d.Stop != retry.StopFinal {
				require.Equal(s, d.State, e.State, "seed %d", s.seed)
			}
			if !d.Retry {
				s.tell(want, d.State, retry.Event{Kind: retry.GaveUp, Verdict: d.Verdict, Stop: d.Stop, Err: d.Err})
				return d.Err
			}
			require.NoError(s, d.Err, "seed %d", s.seed)
			require.Equal(s, d.Delay, d.At.Sub(now), "seed %d", s.seed)
			s.tell(want, d.State, retry.Event{Kind: retry.Retrying, Delay: d.Delay, Verdict: d.Verdict, Err: err})
			state = through(s, d.State)
			_ = s.sleep(context.Background(), d.At.Sub(now))
		}
	}
}

// counted returns the number of failures, free ones included.
func counted(state retry.State) int { return state.Failures + state.RateLimited + state.Pending }

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

// tell notes the event for a driver without an Observer.
func (s *stage) tell(attempt int, state retry.State, e retry.Event) {
	e.Policy, e.Attempt, e.Elapsed = s.policy.Name, attempt, s.now().Sub(state.First)
	s.Observe(s.ctx, e)
}

// byHand is the naive loop: it uses no Call, only the decider. It handles the
// context, its deadline, the timeouts and the budget itself.
func byHand(s *stage) error {
	p := &s.policy
	state := retry.State{First: s.begin}
	e := &retry.Error{Policy: p.Name}
	for s.ctx.Err() == nil {
		began := s.now()
		ended, err := s.try(state)
		if err == nil {
			if s.budget != nil {
				s.budget.Deposit(s.now())
			}
			s.tell(counted(state)+1, state, retry.Event{Kind: retry.Succeeded})
			return nil
		}
		e.Attempts++
		e.Err = err
		if s.ctx.Err() != nil {
			state.Failures++
			break
		}
		v := s.judge(err, ended)
		if p.ResetAfter > 0 && s.now().Sub(began) >= p.ResetAfter {
			v.Progress = true
		}
		d := s.decide(state, v, ended)
		if state = d.State; d.Verdict.Progress {
			e.Waited = 0
		}
		e.Attempts = counted(state)
		switch {
		case d.Retry:
			s.tell(e.Attempts, state, retry.Event{Kind: retry.Retrying, Delay: d.Delay, Verdict: d.Verdict, Err: err})
		case d.Stop == retry.StopFinal:
			s.tell(e.Attempts, state, retry.Event{Kind: retry.GaveUp, Verdict: d.Verdict, Stop: d.Stop, Err: err})
			return err
		default:
			e.Stop, e.RetryAfter, e.State = d.Stop, d.Verdict.After, state
			if d.Stop == retry.StopBudget {
				e.RetryAfter = d.Delay
			}
			s.tell(e.Attempts, state, retry.Event{Kind: retry.GaveUp, Verdict: d.Verdict, Stop: d.Stop, Err: e})
			return e
		}
		if s.sleep(s.ctx, d.Delay) == nil {
			e.Waited += d.Delay
		}
	}
	e.Stop = retry.StopCanceled
	if s.ctx.Err() == context.DeadlineExceeded {
		e.Stop = retry.StopDeadline
	}
	e.Cause, e.State = context.Cause(s.ctx), state
	s.tell(e.Attempts, state, retry.Event{Kind: retry.GaveUp, Stop: e.Stop, Err: e})
	return e
}

// timeout is the timeout of the policy that has ended an attempt.
type timeout uint8

const (
	noTimeout timeout = iota
	ofAttempt
	ofCall
)

// try makes an attempt, and says which timeout has ended it.
func (s *stage) try(state retry.State) (timeout, error) {
	ctx, d, which := s.ctx, s.policy.AttemptTimeout, ofAttempt
	if s.policy.Timeout > 0 {
		if left := s.policy.Timeout - s.now().Sub(state.First); d <= 0 || left <= d {
			d, which = left, ofCall
		}
	}
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = s.withTimeout(ctx, d)
		defer cancel()
	}
	err := s.op(ctx)
	if ctx.Err() == nil || s.ctx.Err() != nil {
		return noTimeout, err
	}
	return which, err
}

// judge is Policy.Classify for an attempt that may have been ended by a timeout.
func (s *stage) judge(err error, ended timeout) retry.Verdict {
	if ended == ofCall {
		return retry.Verdict{}
	}
	v, ok := opinion(&s.policy, err)
	switch {
	case ok:
		return v
	case ended == ofAttempt:
		return retry.Verdict{Class: retry.Retryable, Category: "timeout", Progress: v.Progress}
	default:
		return s.policy.Classify(err)
	}
}

// decide is Policy.Decide with the deadline of the context and the budget.
func (s *stage) decide(state retry.State, v retry.Verdict, ended timeout) retry.Decision {
	p, now := s.policy, s.now()
	drawn := &lastWord{from: p.Rand}
	p.Rand = drawn
	d := p.Decide(state, v, now)
	if ended == ofCall {
		return retry.Decision{Stop: retry.StopTimeout, Verdict: d.Verdict, State: d.State}
	}
	if !d.Retry {
		return d
	}
	if deadline, ok := s.ctx.Deadline(); ok {
		room := deadline.Sub(now)
		if d.Verdict.After > 0 && !d.Verdict.Exact {
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
	if s.budget != nil && d.Verdict.Class != retry.Pending && !s.budget.TryWithdraw(now) {
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

// word is a source of jitter that always returns the same word.
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
