package drivers_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// The main property of the library: with every driver (a loop that blocks, a
// transport, a pool, or a job whose state goes through a database) an operation
// has the same attempts and waits, and ends the same way.

// agreement says that a driver does the same as Execute, and lists the
// exceptions.
type agreement struct {
	name  string
	drive driver
	cases int
	on    func(*scenario, *testing.T, driver) course // a clock; nil means a fake one
	play  func(*scenario) *scenario                  // adapts it so that both can play it; nil means as it is
	view  func(*course)                              // removes what the driver cannot tell; nil means nothing
	never []string                                   // cases that do not occur in these scenarios
}

var agreements = []agreement{
	{name: "loop by hand", drive: byHand, cases: 4000},
	{name: "Execute unobserved", drive: unobserved(execute), cases: 4000, view: (*course).forgetEvents},
	{name: "Call", drive: loop, cases: 4000},
	{name: "Call unobserved", drive: unobserved(loop), cases: 2000, view: (*course).forgetEvents},
	{name: "Call on the system's clock", drive: loop, cases: 2000, on: (*scenario).inBubble, play: (*scenario).apart},
	{name: "Call for each attempt", drive: storedLoop, cases: 4000},
	{
		name: "Next through JSON", drive: durable(throughJSON), cases: 4000,
		play: (*scenario).alone, view: (*course).forgetWaited, never: nextNever,
	},
	{
		name: "Next through text", drive: durable(throughText), cases: 4000,
		play: (*scenario).alone, view: (*course).forgetWaited, never: nextNever,
	},
	{name: "Transport", drive: transport, cases: 3000, play: transportCan, view: (*course).forgetTimedOut},
	{name: "Do", drive: reader, cases: 2000, play: (*scenario).explicit},
	{
		name: "InTx", drive: inTx, cases: 2000,
		play: inTxCan, view: (*course).forgetApplied, never: []string{"maybe_applied"},
	},
	{name: "Run", drive: commands, cases: 100, play: commandsCan, view: (*course).forgetStatus},
	{name: "Pool", drive: inPool, cases: 2500, on: (*scenario).inBubble, play: (*scenario).apart},
}

var nextNever = []string{"deadline", "canceled", "budget", "an attempt timeout", "a wait that is cut short"}

// A Transport does not retry an error with a mark that has neither a class nor a
// category.
func transportCan(sc *scenario) *scenario {
	return sc.explicit().change(func(sc *scenario) {
		for i := range sc.script {
			if v, _ := opinion(&sc.policy, sc.script[i].err); v == (retry.Verdict{}) {
				sc.script[i].err = retry.Mark(sc.script[i].err, retry.Verdict{Category: "unknown"})
			}
		}
	})
}

func inTxCan(sc *scenario) *scenario {
	return commandsCan(sc).change(func(sc *scenario) {
		sc.policy.NonIdempotent = false // nothing is applied before the commit
	})
}

func commandsCan(sc *scenario) *scenario { return sc.explicit().attentive() }

func TestPropertyDriversAgree(t *testing.T) {
	t.Parallel()
	for _, a := range agreements {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			if a.on == nil {
				a.on = (*scenario).onClock
			}
			seen := sights{}
			for seed := range uint64(a.cases) {
				sc := newScenario(seed)
				if a.play != nil {
					sc = a.play(sc)
				}
				want, got := a.on(sc, t, execute), a.on(sc, t, a.drive)
				requireSound(t, sc, &want)
				seen.add(&want)
				if a.view != nil {
					a.view(&want)
					a.view(&got)
				}
				requireSame(t, sc, &want, &got)
			}
			seen.expect(t, a.cases, a.never)
		})
	}
}

// TestPropertyClocksAgree checks that a retrytest.Clock and the system's clock give an
// operation the same course.
func TestPropertyClocksAgree(t *testing.T) {
	t.Parallel()
	const cases = 2000
	seen := sights{}
	for seed := range uint64(cases) {
		sc := newScenario(seed).apart()
		want, got := sc.inBubble(t, execute), sc.onClock(t, execute)
		seen.add(&want)
		requireSame(t, sc, &want, &got)
	}
	seen.expect(t, cases, nil)
}

// TestPropertyResumedTasksAgree checks that a task which goes from pool to pool by way
// of JSON loses its last error and its Waited, and nothing else.
func TestPropertyResumedTasksAgree(t *testing.T) {
	t.Parallel()
	const cases = 1500
	handed := 0
	for seed := range uint64(cases) {
		sc := newScenario(seed).apart().endless()
		want, got := sc.inBubble(t, execute), sc.inBubble(t, inPools)
		require.Equal(t, want.attempts, got.attempts, "seed %d", seed)
		require.Equal(t, want.left, got.left, "seed %d", seed)
		require.Len(t, got.events, len(want.events), "seed %d", seed)
		for i := range want.events {
			want.events[i].Err, got.events[i].Err = nil, nil
		}
		require.Equal(t, want.events, got.events, "seed %d", seed)
		var wantErr, gotErr *retry.Error
		if errors.As(want.err, &wantErr) && errors.As(got.err, &gotErr) {
			require.Equal(t, wantErr.Attempts, gotErr.Attempts, "seed %d", seed)
			require.Equal(t, wantErr.Stop, gotErr.Stop, "seed %d", seed)
			require.Equal(t, wantErr.RetryAfter, gotErr.RetryAfter, "seed %d", seed)
			require.Equal(t, wantErr.State, gotErr.State, "seed %d", seed)
			require.Equal(t, want.first, got.first, "seed %d", seed)
			if wantErr.Waited != gotErr.Waited {
				handed++
			}
		}
	}
	assert.Greater(t, handed, cases/50)
}

// TestPropertyCallsEndForAReason checks that no operation goes on after a failure that
// is Final, and that none ends without a reason.
func TestPropertyCallsEndForAReason(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		sc := newScenario(seed).alone()
		c := sc.onClock(t, execute)
		requireSound(t, sc, &c)
		assert.Len(t, c.waits(), len(c.attempts)-1, "seed %d: one wait between two attempts", seed)
	}
}

// requireSound checks invariants of any operation in Execute.
func requireSound(t *testing.T, sc *scenario, c *course) {
	t.Helper()
	seed, verdicts, waits := sc.seed, c.verdicts(), c.waits()
	finals := slices.IndexFunc(verdicts, func(v retry.Verdict) bool { return v.Class == retry.Final })
	require.True(t, finals < 0 || finals == len(c.attempts)-1, "seed %d: an attempt after a final error", seed)
	require.Equal(t, c.err == nil, c.stop() == retry.StopNone, "seed %d: a reason", seed)
	if c.cutWait() {
		waits = waits[:len(waits)-1]
	}
	require.Len(t, waits, max(len(c.attempts)-1, 0), "seed %d: one wait between two attempts", seed)
	var waited time.Duration // since the last progress
	attempts := 0
	for i := range c.attempts {
		if attempts++; i < len(verdicts) && verdicts[i].Progress {
			waited, attempts = 0, 1
		}
		if i < len(waits) {
			require.GreaterOrEqual(t, waits[i], time.Duration(0), "seed %d", seed)
			require.GreaterOrEqual(t, c.attempts[i+1]-c.attempts[i], waits[i], "seed %d: an attempt that is early", seed)
			waited += waits[i]
		}
	}
	if e := c.gaveUp(); e != nil {
		require.Equal(t, waited, e.Waited, "seed %d: Waited", seed)
		require.Equal(t, attempts, e.Attempts, "seed %d: Attempts", seed)
	}
}

// requireSame checks that two courses are equal.
func requireSame(t *testing.T, sc *scenario, want, got *course) {
	t.Helper()
	assert.Equal(t, want.attempts, got.attempts, "attempts")
	assert.Equal(t, want.waits(), got.waits(), "waits")
	assert.Equal(t, want.verdicts(), got.verdicts(), "verdicts")
	assert.Equal(t, want.stop(), got.stop(), "stop")
	assert.Equal(t, want.events, got.events, "events")
	assert.Equal(t, want.err, got.err, "end")
	assert.Equal(t, want.first, got.first, "First")
	assert.Equal(t, want.left, got.left, "what is left of the budget")
	if want.gaveUp() == nil {
		same := want.err == got.err
		assert.True(t, same, "a Final error is returned as it is: %v", got.err)
	}
	if t.Failed() {
		t.Fatalf("seed %d: %+v", sc.seed, *sc)
	}
}

// sights counts what has happened. A property proves nothing about cases that
// never occur.
type sights map[string]int

func (s sights) add(c *course) {
	s[c.stop().Error()]++
	s["retries"] += len(c.waits())
	if c.cutWait() {
		s["a wait that is cut short"]++
	}
	verdicts := c.verdicts()
	for i, v := range verdicts {
		before := verdicts[max(i-1, 0)]
		for name, seen := range map[string]bool{
			"a failure after a poll":   before.Class == retry.Pending && v.Class != retry.Pending,
			"a poll after a failure":   i > 0 && before.Class != retry.Pending && v.Class == retry.Pending,
			"a poll after progress":    i > 0 && before.Progress && v.Class == retry.Pending,
			"progress of a poll":       v.Progress && v.Class == retry.Pending,
			"progress and exact":       v.Progress && v.Exact,
			"a failure after progress": i > 0 && before.Progress && v.Class != retry.Pending,
			"a hint":                   v.After > 0,
			"an exact wait":            v.Exact,
			"progress":                 v.Progress,
			"pending":                  v.Class == retry.Pending,
			"an attempt timeout":       v.Class == retry.Retryable && v.Category == "timeout",
		} {
			if seen {
				s[name]++
			}
		}
	}
}

// expect checks that only the cases in never were rare.
func (s sights) expect(t *testing.T, cases int, never []string) {
	t.Helper()
	least := map[string]int{
		"retries": cases / 2, "a wait that is cut short": cases / 200, "a hint": cases / 50, "an exact wait": cases / 100,
		"progress": cases / 50, "pending": cases / 50, "an attempt timeout": cases / 50,
	}
	for _, pair := range []string{
		"a failure after a poll", "a poll after a failure", "a poll after progress", "progress of a poll",
		"progress and exact", "a failure after progress",
	} {
		least[pair] = cases/200 - 1 // a hundred commands are too few for all pairs
	}
	for stop := range retry.StopBackoff + 1 {
		least[stop.Error()] = cases / 50
	}
	for name, n := range least {
		if !slices.Contains(never, name) {
			assert.Greater(t, s[name], n, "%s is rare: %v", name, s)
		}
	}
}
