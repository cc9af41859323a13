package contract_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A stage runs a script on a driver, and writes down what happens, in the lines of the
// model. It is the Observer and the Budget of the policy.
type stage struct {
	*script
	budget  retry.Budget
	clock   *retrytest.Clock // not in a bubble
	now     func() time.Time
	sleep   func(context.Context, time.Duration) error
	start   time.Time
	ctx     context.Context
	decides bool // the driver tells its decisions, and the stage takes the waits from them

	lines   []string
	drawn   []time.Duration
	stopped retry.StopReason
	calls   int
	told    error // of the last event
	failures
}

// failures are those of the operation.
type failures struct {
	all       []error // by the number of the call
	last      error
	kept, cut int  // the calls whose failures are Err and Cut of an Error; 0 means none
	spent     bool // kept is of an attempt that was cut off
}

func (f *failures) of(call int) error {
	if call == 0 {
		return nil
	}
	return f.all[call-1]
}

// note notes a failure. That of an attempt that a limit has cut off stands beside the last other
// one, if that says more.
func (f *failures) note(err error, cut bool) {
	f.all, f.last = append(f.all, err), err
	if cut && f.kept > 0 && !f.spent {
		f.cut = len(f.all)
		return
	}
	f.kept, f.cut, f.spent = len(f.all), 0, cut
}

// newStage is for drivers that run on a retrytest.Clock.
func newStage(t *testing.T, s *script) *stage {
	t.Helper()
	clock := &retrytest.Clock{}
	st := &stage{script: s, clock: clock, now: clock.Now, sleep: clock.AdvanceContext}
	st.policy.Clock = clock
	st.set(t, clock.WithDeadline, clock.At)
	return st
}

// newBubble is for drivers that run in a bubble of testing/synctest. No two timers of
// the script end at the same instant, because either may win, and the clock of a
// bubble has no time for waits of a hundred years.
func newBubble(t *testing.T, s *script) *stage {
	t.Helper()
	const years = 20 * 365 * 24 * time.Hour
	for d, odd := range map[*time.Duration]time.Duration{
		&s.policy.AttemptTimeout: 1000, &s.policy.Timeout: 333, &s.context.after: 777,
	} {
		if *d > 0 {
			*d = min(*d, years) + odd
		}
	}
	for i := range s.attempts {
		s.attempts[i].takes += 10
	}
	if s.policy.MaxElapsed <= 0 || s.policy.MaxElapsed > years {
		s.policy.MaxElapsed = years
	}
	st := &stage{script: s, now: time.Now, sleep: new(retry.Policy).Sleep}
	st.set(t, context.WithDeadline, func(d time.Duration, end func()) {
		timer := time.AfterFunc(d, end)
		t.Cleanup(func() { timer.Stop() })
	})
	return st
}

// set makes the context of the script.
func (s *stage) set(
	t *testing.T, withDeadline func(context.Context, time.Time) (context.Context, context.CancelFunc), at func(time.Duration, func()),
) {
	t.Helper()
	s.start = s.now()
	s.budget.Reserve = cmp.Or(s.refuse, retry.NoReserve)
	switch s.watch {
	case attempts:
		s.policy.Observer, s.policy.Budget = &retry.Observer{Event: s.Observe, Attempt: s.Attempt}, s
	case events:
		s.policy.Observer, s.policy.Budget = &retry.Observer{Event: s.Observe}, s
	case nobody:
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	t.Cleanup(func() { cancel(nil) })
	switch s.ctx = ctx; {
	case s.context.after < 0:
	case s.context.deadline:
		deadline, stop := withDeadline(ctx, s.start.Add(s.context.after))
		t.Cleanup(stop)
		s.ctx = deadline
	default:
		at(s.context.after, func() { cancel(errCause) })
	}
}

func (s *stage) log(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%12v ", s.now().Sub(s.start))+fmt.Sprintf(format, args...))
}

// operation is the user's function.
func (s *stage) operation(ctx context.Context) error {
	s.calls++
	s.log("attempt %d", s.calls)
	a, whole := s.at(s.calls, s.now().Sub(s.start)), ctx
	if !a.obeys {
		ctx = context.Background()
	}
	err := a.failure.err
	if s.sleep(ctx, a.takes) != nil {
		err = errInterrupted
	} else if a.failure.answer > 0 { // the timeout of an attempt ends with its response
		whole = s.ctx
	}
	s.note(err, whole.Err() != nil)
	return err
}

// Deposit and TryWithdraw make the stage a Throttle.
func (s *stage) Deposit(now time.Time) {
	s.budget.Deposit(now)
	s.log("deposit%s", differs("at", now, s.now()))
}

func (s *stage) TryWithdraw(now time.Time) bool {
	allowed := s.budget.TryWithdraw(now)
	s.log("withdraw: %v%s", allowed, differs("at", now, s.now()))
	return allowed
}

// Observe is the Event of its Observer.
func (s *stage) Observe(_ context.Context, e retry.Event) {
	s.told = e.Err
	rest := fmt.Sprintf(", %v since the first", e.Elapsed) + differs("name", e.Policy, s.policy.Name)
	switch e.Kind {
	case retry.Succeeded:
		s.log("succeeded %d%s", e.Attempt, rest)
	case retry.Retrying:
		s.drew(e.Delay)
		s.log("retrying %d after %v: %v%s", e.Attempt, e.Delay, showVerdict(e.Verdict), rest+differs("error", e.Err, s.last))
	case retry.GaveUp:
		s.stopped = e.Stop
		s.log("gave up %d: %v: %v%s", e.Attempt, e.Stop, showVerdict(e.Verdict), rest)
	}
}

// Attempt is the Attempt of its Observer.
func (s *stage) Attempt(ctx context.Context, n int) (context.Context, func(error)) {
	s.log("attempt %d begins", n)
	return nil, func(err error) { s.log("attempt %d ends: %v", n, err) }
}

// drew keeps a wait for the model. Of a lost attempt there is no Decision.
func (s *stage) drew(d time.Duration) {
	if !s.decides || errors.Is(s.last, retry.ErrLost) {
		s.drawn = append(s.drawn, d)
	}
}

func (s *stage) decided(d retry.Decision) {
	rest := differs("retry", d.Retry, d.Stop == retry.StopNone && s.last != nil)
	if !d.At.IsZero() {
		rest += differs("at", d.At.Sub(s.now()), d.Delay)
		if d.Stop != retry.StopRetryAfter {
			s.drawn = append(s.drawn, d.Delay)
		}
	}
	s.log("%v%s", decision{d.Counted, d.Limit, d.Stop, d.Delay, d.State, d.Verdict}, rest)
}

// returned tells how the driver ended.
func (s *stage) returned(err error) {
	e, ok := err.(*retry.Error)
	switch {
	case err == nil:
		s.log("returned nil")
	case err == s.last:
		s.log("returned failure %d%s", s.calls, s.untold(err))
	case ok:
		if s.stopped = e.Stop; e.Stop == retry.StopBudget {
			s.drew(e.RetryAfter)
		}
		s.log("returned %v, %d attempts, waited %v, retry after %v, failure %d, %v%s", e.Stop, e.Attempts, e.Waited, e.RetryAfter,
			s.calls, e.Cause, s.untold(err)+differs("error", e.Err, s.of(s.kept))+
				differs("cut", e.Cut, s.of(s.cut))+differs("reason", errors.Is(err, e.Stop), true)+differs("name", e.Policy, s.policy.Name))
	default:
		s.log("returned %v", err)
	}
}

// untold complains if the last event had another error.
func (s *stage) untold(err error) string {
	if s.watch == nobody {
		return ""
	}
	return differs("event", s.told, err)
}

// differs says nothing if there is no difference.
func differs(what string, got, want any) string {
	a, ok := got.(*retryhttp.StatusError) // a Transport makes its own
	b, also := want.(*retryhttp.StatusError)
	if got == want || ok && also && a.StatusCode == b.StatusCode && a.URL == b.URL {
		return ""
	}
	if err, ok := got.(error); ok && want == retry.ErrLost && errors.Is(err, retry.ErrLost) { // a Call makes its own
		return ""
	}
	return fmt.Sprintf(" (%s is %v, not %v)", what, got, want)
}

// compare runs the model, and compares it with the driver.
func (s *stage) compare(t *testing.T, model func(*run)) {
	t.Helper()
	r := &run{script: s.script, start: s.start, now: s.start, state: s.state, drawn: s.drawn, stopped: s.stopped}
	if s.context.after >= 0 {
		r.ends = s.start.Add(s.context.after)
	}
	model(r)
	if !slices.Equal(s.lines, r.lines) {
		t.Fatalf("%s\nthe documents say\n%s\n\nbut the driver\n%s", s.script, strings.Join(r.lines, "\n"), strings.Join(s.lines, "\n"))
	}
}

// String shows the script, to find the cause of a difference.
func (s *script) String() string {
	type fields retry.Policy // without String
	p := fields(s.policy)
	p.Observer, p.Clock, p.Budget = nil, nil, nil
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", p)
	if p.Classifier != nil {
		fmt.Fprintf(&b, "Classifier: %s\n", showVerdict(p.Classifier(errors.New("any"))))
	}
	fmt.Fprintf(&b, "%s\nwatch %d, context %+v, refused: withdrawal %d, words: %v %x, state %s, late %v\n",
		s.exchange, s.watch, s.context, s.refuse, s.scripted, s.word, showState(s.state), s.late)
	for i, a := range s.attempts {
		f := a.failure
		fmt.Fprintf(&b, "%d: takes %v, obeys %v, fate %d: %v, progress %v, answer %d, harmless %v, once %v, unsent %v\n   base: %s\n",
			i+1, a.takes, a.obeys, a.fate, f.err, f.progress, f.answer, f.harmless, f.once, f.unsent, showVerdict(f.base))
		if f.mark != nil {
			fmt.Fprintf(&b, "   mark: %s\n", showVerdict(*f.mark))
		}
	}
	return b.String()
}

// showVerdict leaves out what no document says: the rest of a Final verdict, and
// categories without a name in the documents.
func showVerdict(v retry.Verdict) string {
	if v.Class == retry.Final {
		v = retry.Verdict{Class: retry.Final, Progress: v.Progress}
	}
	if !slices.Contains(kinds, v.Category) {
		v.Category = ""
	}
	return fmt.Sprintf("%v, after %v, not applied: %v, progress: %v, exact: %v, not started: %v, %q",
		v.Class, max(v.After, 0), v.NotApplied, v.Progress, v.Exact, v.NotStarted, v.Category)
}

func showState(s retry.State) string {
	return fmt.Sprintf("f=%d r=%d p=%d t=%s %q", s.Failures, s.RateLimited, s.Pending, s.First.UTC().Format(time.RFC3339Nano), s.Key)
}
