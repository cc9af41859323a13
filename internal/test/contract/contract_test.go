// Package contract compares what the documents promise about a policy with what every
// driver does. It has tests only.
//
// The model is written from the documents alone, slow and without a thought of how the
// drivers work: model_test.go is a policy, and loop_test.go the loops over it. A script
// has a random policy, what the attempts of an operation do, and when its context ends.
// The model and a driver write down every event of the script, with its instant, and
// both must write the same lines. Waits are exact where the random words are known, and
// otherwise within the range of the jitter. The drivers are the loops of packages retry, retryhttp,
// retrysql and retryexec, a Pool, a Stored, and a loop over Next.
//
// If a test fails, either the driver or a sentence of the documents is wrong.
//
// # What the documents leave open
//
// Here the model does what the drivers do:
//
//   - Several reasons to stop hold at once: Timeout is over, Final, NonIdempotent, the
//     attempts, MaxElapsed is over, MaxRetryAfter, the Backoff, a wait that ends too late,
//     the context's deadline, the Budget. The first counts.
//   - After progress, the number of the attempt, Error.Waited and Event.Elapsed start again.
//   - A failure whose error is not asked counts as a failed attempt.
//   - A free rate limit is never the last attempt, whatever the limit of its kind is.
//   - The default of MaxRetryAfter uses the MaxDelay of the failure's kind, and without
//     one the longest wait that a Constant or a Schedule has.
//   - A custom Backoff that says stop is heeded in spite of a hint, unless that is Exact.
//   - A wait of 0 gets no jitter.
//   - The addition to a hint crosses no limit of the policy either.
//   - Resumed operations: an attempt is begun after MaxElapsed, but not after Timeout.
//   - A response that comes after AttemptTimeout has the verdict of its status.
//   - Final responses with the statuses 408, 425, 429 and from 500 on are failures to an
//     Observer and a Budget.
//   - A job whose NonIdempotent attempt was lost, and whose Timeout is over, ends without
//     counting that attempt.
package contract_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// scripts is how many scripts each driver runs in a plain test. The fuzz targets run more.
const scripts = 3000

var drivers = map[string]func(*testing.T, *decoder){
	"Execute": testExecute, "Call": testCall, "Next": testNext, "Pool": testPool, "Transport": testTransport,
	"Stored": testStored, "InTx": testInTx, "Run": testRun,
}

// Every driver does what the documents say. The scripts are the same in every run.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, test := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.NewChaCha8([32]byte{25})
			for i := range scripts {
				d := &decoder{make([]byte, 600)}
				_, _ = random.Read(d.bytes)
				t.Run(strconv.Itoa(i), func(t *testing.T) { test(t, d) })
			}
		})
	}
}

func FuzzExecute(f *testing.F) { fuzz(f, testExecute) }

func FuzzCall(f *testing.F) { fuzz(f, testCall) }

func FuzzNext(f *testing.F) { fuzz(f, testNext) }

func FuzzStored(f *testing.F) { fuzz(f, testStored) }

func FuzzPool(f *testing.F) { fuzz(f, testPool) }

func FuzzTransport(f *testing.F) { fuzz(f, testTransport) }

func fuzz(f *testing.F, test func(*testing.T, *decoder)) {
	f.Helper()
	random := rand.NewChaCha8([32]byte{1})
	for range 20 {
		bytes := make([]byte, 600)
		_, _ = random.Read(bytes)
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { test(t, &decoder{bytes}) })
}

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
		submit := func() (*retrypool.Task, error) { return pool.Submit(s.ctx, s.operation) }
		if counts(s.state) > 0 {
			s.state.First = s.start.Add(-s.age)
			submit = func() (*retrypool.Task, error) { return pool.Resume(s.ctx, s.state, s.start, s.operation) }
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

// attentive makes a script for drivers that have opinions about errors of their own, and in which
// nothing succeeds after its context has ended: every failure has a mark, or the policy's
// Classifier has an opinion.
func (s *script) attentive() *script {
	for i := range s.attempts {
		a := &s.attempts[i]
		f := &a.failure
		switch explicit := s.policy.Classifier != nil && s.policy.Classifier(f.err) != (retry.Verdict{}); {
		case f.err == nil:
			a.obeys = true
		case f.mark == nil && !explicit:
			f.marked(retry.Mark(f.err, f.base), f.base)
		}
	}
	return s
}

// testInTx makes the attempts in transactions. No failure before the commit has had an effect.
func testInTx(t *testing.T, d *decoder) {
	t.Helper()
	s := newStage(t, d.script().attentive())
	s.state = retry.State{}
	for i := range s.attempts {
		s.attempts[i].failure.unsent = true
	}
	server := &database{}
	db := sql.OpenDB(server)
	err := retrysql.InTx(s.ctx, db, &s.policy, nil, func(ctx context.Context, _ *sql.Tx) error { return s.operation(ctx) })
	require.NoError(t, db.Close())
	require.Equal(t, s.calls, server.begun)
	require.Equal(t, err == nil, server.committed == 1)
	require.Equal(t, server.begun, server.committed+server.rolledBack)
	s.returned(err)
	s.compare(t, (*run).live)
}

// database has transactions and nothing else. It is used by one transaction at a time.
type database struct{ begun, committed, rolledBack int }

// Connect implements [sqldriver.Connector].
func (d *database) Connect(context.Context) (sqldriver.Conn, error) { return d, nil }

// Driver implements [sqldriver.Connector].
func (*database) Driver() sqldriver.Driver { return nil }

// Prepare implements [sqldriver.Conn].
func (*database) Prepare(string) (sqldriver.Stmt, error) { panic("not used") }

// Close implements [sqldriver.Conn].
func (*database) Close() error { return nil }

// Begin implements [sqldriver.Conn].
func (d *database) Begin() (sqldriver.Tx, error) {
	d.begun++
	return d, nil
}

// Commit implements [sqldriver.Tx].
func (d *database) Commit() error {
	d.committed++
	return nil
}

// Rollback implements [sqldriver.Tx].
func (d *database) Rollback() error {
	d.rolledBack++
	return nil
}
