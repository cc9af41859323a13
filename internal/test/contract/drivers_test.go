package contract_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

func testExecute(t *testing.T, d *decoder) {
	t.Helper()
	s := newStage(t, d.script())
	s.state = retry.State{}
	if s.text {
		s.returned(s.policy.Execute(s.ctx, s.operation))
	} else {
		n, err := retry.Do(s.ctx, &s.policy, func(ctx context.Context) (int, error) {
			err := s.operation(ctx)
			return s.calls, err
		})
		require.Equal(t, s.calls, n)
		s.returned(err)
	}
	s.compare(t, (*run).live)
}

func testCall(t *testing.T, d *decoder) {
	t.Helper()
	s := newStage(t, d.script())
	s.decides = true
	s.state.First = s.start.Add(-s.age)
	c := retry.Call{Policy: &s.policy, State: s.state}
	next, due := c.Next, s.start
	if s.elsewhere {
		next = func(ctx context.Context) bool {
			_ = s.clock.SleepContext(ctx, due.Sub(s.now()))
			return c.Begin(ctx)
		}
	}
	for next(s.ctx) {
		before := s.failures
		err := s.operation(c.Context())
		switch s.at(s.calls, 0).fate {
		case aborted:
			s.failures = before
			c.Abort()
		case forgotten:
			cut := c.Context().Err() != nil
			s.failures = before
			s.note(retry.ErrLost, cut)
		case finished:
			decision := c.End(err)
			if s.decided(decision); decision.Retry {
				due = decision.At
			}
			require.Equal(t, decision.State, c.State)
			require.Equal(t, decision.Err, c.Err())
		}
	}
	s.returned(c.Err())
	s.compare(t, func(r *run) {
		r.call = true
		r.live()
	})
}

func testNext(t *testing.T, d *decoder) {
	t.Helper()
	s := newStage(t, d.script().job())
	s.decides, s.context.after = true, -1
	if s.timed {
		s.state.First = s.start.Add(-s.age)
	}
	s.told = s.poll(t)
	s.returned(s.told)
	s.compare(t, (*run).stored)
}

// poll runs a job whose State is stored, and so is its policy if it can be.
func (s *stage) poll(t *testing.T) error {
	t.Helper()
	p, state := s.policy, s.state
	if text, err := json.Marshal(p); err == nil {
		p = retry.Policy{Classifier: p.Classifier, Rand: p.Rand}
		require.NoError(t, json.Unmarshal(text, &p))
	}
	for {
		if d, over := p.Exhausted(state, s.now()); over {
			s.decided(d)
			s.failures = failures{}
			return d.Err
		}
		err := s.operation(context.Background())
		d := p.Next(state, err, s.now())
		if s.decided(d); !d.Retry {
			return d.Err
		}
		if state.Key != "" { // "so that every process draws the same wait"
			require.Equal(t, d.Delay, p.Next(state, err, s.now()).Delay)
		}
		state = s.restore(t, d.State)
		s.clock.Advance(sum(d.Delay, s.late))
	}
}

// restore stores a State, and reads it again.
func (s *stage) restore(t *testing.T, state retry.State) (again retry.State) {
	t.Helper()
	var text []byte
	var err, bad error
	if s.text {
		text, err = state.MarshalText()
		bad = again.UnmarshalText(text)
	} else {
		text, err = json.Marshal(state)
		bad = json.Unmarshal(text, &again)
	}
	require.NoError(t, errors.Join(err, bad))
	again.Key = state.Key
	return again
}

func testPool(t *testing.T, d *decoder) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newBubble(t, d.script())
		if s.context.after == 0 {
			return // Submit returns the cause
		}
		pool := &retrypool.Pool{Workers: 1, Policy: &s.policy}
		operation := func(ctx context.Context) error {
			_, marked := retry.Marked(s.of(s.kept)) // each attempt has a new Call
			s.spent = errors.Is(s.of(s.kept), context.DeadlineExceeded) && !marked && !errors.As(s.of(s.kept), new(*retry.Error))
			return s.operation(ctx)
		}
		submit := func() (*retrypool.Task, error) { return pool.Submit(s.ctx, operation) }
		if counts(s.state) > 0 {
			s.state.First = s.start.Add(-s.age)
			submit = func() (*retrypool.Task, error) { return pool.Resume(s.ctx, s.state, s.start, operation) }
		}
		task, err := submit()
		if d, over := exhausted(&s.policy, s.state, s.start); over {
			require.ErrorIs(t, err, d.stop)
			return
		}
		require.NoError(t, err)
		s.returned(task.Wait(context.Background()))
		s.log("attempts %d", task.Attempts())
		_, err = pool.Close(context.Background())
		require.NoError(t, err)
		s.compare(t, func(r *run) {
			r.live()
			r.log("attempts %d", r.number)
		})
	})
}
