package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// fetch stands for an operation of yours: it fails twice.
var fetch = retrytest.Script(errors.New("connection reset"), errors.New("connection reset"), nil).Run

func load(context.Context) (string, error) { return "42", nil }

func Example() {
	ctx := context.Background()
	policy := &retry.Policy{
		Name:        "fetch",
		MaxAttempts: 5,
		Backoff:     retry.Exponential{Initial: 100 * time.Millisecond, Multiplier: 2},
		Clock:       new(retrytest.Clock), // tests only: waits take no time
	}
	err := policy.Execute(ctx, func(ctx context.Context) error {
		return fetch(ctx)
	})
	fmt.Println(err)
	// Output: <nil>
}

// A policy with faults runs nevertheless, so look for them where the program starts.
func ExamplePolicy_Validate() {
	policy := &retry.Policy{
		MaxAttempts: -1,
		Backoff:     retry.Exponential{Initial: 5}, // nanoseconds: the unit is missing
	}
	fmt.Println(policy.Validate())
	// Output:
	// retry: invalid policy: max_attempts: -1: must be at least 1, or 0 for the default
	// backoff.exponential.initial: 5ns: is less than a microsecond; write 5 * time.Second or 5 * time.Millisecond
}

func ExampleDo() {
	ctx := context.Background()
	policy := &retry.Policy{Name: "load", MaxAttempts: 5}

	value, err := retry.Do(ctx, policy, load)

	var gaveUp *retry.Error
	if errors.As(err, &gaveUp) { // not if the error is Final
		fmt.Println(gaveUp.Attempts, gaveUp.Stop, gaveUp.RetryAfter)
	}
	fmt.Println(value, err)
	// Output: 42 <nil>
}

func ExampleError() {
	policy := &retry.Policy{Name: "task", Clock: new(retrytest.Clock)}
	refused := errors.New("connection refused")
	err := policy.Execute(context.Background(), func(context.Context) error { return refused })

	fmt.Println(err)
	fmt.Println(errors.Is(err, refused), errors.Is(err, retry.StopAttempts))
	// Output:
	// task failed after 3 attempts: connection refused
	// true true
}

// A wait that would end after the deadline is not begun. The error says so, and
// wraps the failure.
func ExampleError_deadline() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	policy := &retry.Policy{Name: "task", Backoff: retry.Constant(time.Minute)}
	refused := errors.New("connection refused")
	err := policy.Execute(ctx, func(context.Context) error { return refused })

	fmt.Println(err)
	fmt.Println(errors.Is(err, refused), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// task failed after 1 attempt (next attempt would miss the context's deadline): connection refused
	// true true
}

// The server asks for a wait of three hours. The program stores the state and when to
// come back, and exits. On the next day it goes on where it was.
func ExampleError_state() {
	type row struct {
		State retry.State
		Due   time.Time
	}
	ctx := context.Background()
	clock := retrytest.NewClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)) // tests only: waits take no time
	policy := &retry.Policy{Name: "import", MaxElapsed: 48 * time.Hour, Clock: clock}
	busy := retry.MarkRateLimited(errors.New("too many requests"), 3*time.Hour)
	reset := errors.New("connection reset")
	fetch := retrytest.Script(reset, busy, reset).Run // stands for an operation of yours

	var job row
	var gaveUp *retry.Error
	err := policy.Execute(ctx, fetch)
	if errors.As(err, &gaveUp) && gaveUp.Stop == retry.StopRetryAfter {
		job = row{State: gaveUp.State, Due: time.Now().Add(gaveUp.RetryAfter)}
	}
	fmt.Println(err)

	stored, _ := json.Marshal(job) // a file, or the columns of a row
	clock.Advance(24 * time.Hour)
	job = row{}
	_ = json.Unmarshal(stored, &job)
	fmt.Println(job.State.Failures, job.State.First, time.Until(job.Due).Round(time.Hour))

	call := retry.Call{Policy: policy, State: job.State}
	for call.Next(ctx) {
		call.End(fetch(call.Context()))
	}
	err = call.Err()
	fmt.Println(err)
	// Output:
	// import failed after 2 attempts (server asks to wait 3h0m0s): too many requests
	// 2 2026-11-21 12:00:00 +0000 UTC 3h0m0s
	// import failed after 3 attempts: connection reset
}

func ExampleMarkFinal() {
	var policy retry.Policy
	err := policy.Execute(context.Background(), func(context.Context) error {
		return retry.MarkFinal(errors.New("no such account"))
	})
	fmt.Println(err)
	// Output: no such account
}

// A server's hint is a lower bound of the wait. Up to 10 % are added, so that
// clients with the same hint do not come back in step.
func ExampleMarkRateLimited() {
	var clock retrytest.Clock
	policy := &retry.Policy{Clock: &clock}
	op := retrytest.Script(retry.MarkRateLimited(errors.New("slow down"), 10*time.Second), nil)
	err := policy.Execute(context.Background(), op.Run)

	wait := clock.Sleeps()[0]
	fmt.Println(err, wait >= 10*time.Second, wait <= 11*time.Second)
	// Output: <nil> true true
}

func ExampleOn() {
	errSold := errors.New("sold out")
	policy := &retry.Policy{
		Classifier: retry.Chain(
			retry.On(retry.Final, errSold),
			retry.On(retry.Retryable, fs.ErrNotExist), // by default Final
		),
	}
	fmt.Println(policy.Classify(fmt.Errorf("order 7: %w", errSold)).Class)
	fmt.Println(policy.Classify(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}).Class)
	fmt.Println(policy.Classify(fs.ErrPermission).Class)
	// Output:
	// final
	// retryable
	// final
}

// A durable policy around a policy that blocks should classify the inner
// policy's last error. By default, the error of an inner policy that gave up is
// Final.
func ExampleThroughGiveUp() {
	inner := &retry.Policy{Clock: new(retrytest.Clock)}
	err := inner.Execute(context.Background(), func(context.Context) error {
		return context.DeadlineExceeded // of a call that it made
	})

	outer := &retry.Policy{Classifier: retry.ThroughGiveUp}
	fmt.Println(retry.Classify(err).Class, outer.Classify(err).Class)
	// Output: final retryable
}

// Every kind of failure has its own limit and backoff. The limits count
// attempts, one more than retries.
func ExamplePolicy_overrides() {
	policy := &retry.Policy{
		Jitter:     retry.NoJitter, // for the output below
		Classifier: categories,
		Overrides: map[string]retry.Override{
			"transient":    {MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Second}},
			"api_error":    {MaxAttempts: 3, Backoff: retry.Linear{Initial: time.Second}},
			"code_error":   {MaxAttempts: 2, Backoff: retry.Constant(0)},
			"system_error": {MaxAttempts: 3, Backoff: retry.Exponential{Initial: 5 * time.Second}},
			"unknown":      {MaxAttempts: 2, Backoff: retry.Linear{Initial: 3 * time.Second}},
		},
	}
	for _, err := range []error{errTimeout, errAPI, errCode, errSystem, errors.New("?")} {
		var state retry.State
		for {
			d := policy.Next(state, err, time.Now())
			if !d.Retry {
				fmt.Println(d.Err)
				break
			}
			fmt.Print(d.Delay, " ")
			state = d.State
		}
	}
	// Output:
	// 1s 2s 4s failed after 4 attempts: timeout
	// 1s 2s failed after 3 attempts: api
	// 0s failed after 2 attempts: code
	// 5s 10s failed after 3 attempts: system
	// 3s failed after 2 attempts: ?
}

var (
	errTimeout = errors.New("timeout")
	errAPI     = errors.New("api")
	errCode    = errors.New("code")
	errSystem  = errors.New("system")
)

// categories names the kinds of failures. It has no opinion about others.
func categories(err error) retry.Verdict {
	switch {
	case errors.Is(err, errTimeout):
		return retry.Verdict{Class: retry.Retryable, Category: "transient"}
	case errors.Is(err, errAPI):
		return retry.Verdict{Class: retry.Retryable, Category: "api_error"}
	case errors.Is(err, errCode):
		return retry.Verdict{Class: retry.Retryable, Category: "code_error"}
	case errors.Is(err, errSystem):
		return retry.Verdict{Class: retry.Retryable, Category: "system_error"}
	default:
		return retry.Verdict{}
	}
}

func ExamplePolicy_String() {
	fmt.Println(&retry.Policy{})
	fmt.Println(&retry.Policy{Name: "sync", MaxAttempts: 8, Backoff: retry.Fibonacci{Initial: time.Second}, Jitter: retry.NoJitter})
	fmt.Println(&retry.Policy{MaxAttempts: retry.Unlimited, MaxElapsed: time.Hour, Backoff: retry.Constant(10 * time.Second), MaxDelay: 15 * time.Second})
	// Output:
	// 3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s
	// sync: 8 attempts, fibonacci 1s ≤30s, no jitter: waits 1s, 1s, 2s, 3s, 5s, …
	// unlimited attempts within 1h0m0s, constant 10s ≤15s, ±10% jitter: waits 9s–11s, 9s–11s, 9s–11s, 9s–11s, 9s–11s, …
}

func ExamplePolicy_Bounds() {
	policy := &retry.Policy{MaxAttempts: 10, Jitter: retry.EqualJitter}
	for _, n := range []int{1, 2, 9} {
		lo, hi := policy.Bounds(n)
		fmt.Println(n, lo, hi)
	}
	// Output:
	// 1 1s 2s
	// 2 2s 4s
	// 9 15s 30s
}

func ExampleBackoff() {
	for _, b := range []retry.Backoff{
		retry.Exponential{Initial: time.Second, Multiplier: 3},
		retry.Linear{Initial: time.Second, Step: 2 * time.Second},
		retry.Fibonacci{Initial: time.Second},
		retry.Constant(5 * time.Second),
		retry.Schedule{time.Second, 10 * time.Second, time.Minute},
	} {
		fmt.Print(b, ":")
		for n := 1; n <= 5; n++ {
			fmt.Print(" ", b.Delay(n))
		}
		fmt.Println()
	}
	// Output:
	// 1s ×3: 1s 3s 9s 27s 1m21s
	// 1s +2s: 1s 3s 5s 7s 9s
	// fibonacci 1s: 1s 1s 2s 3s 5s
	// constant 5s: 5s 5s 5s 5s 5s
	// schedule 1s, 10s, 1m0s: 1s 10s 1m0s 1m0s 1m0s
}

func ExampleJitter() {
	const delay, limit = 10 * time.Second, 10500 * time.Millisecond
	for _, j := range []retry.Jitter{
		retry.FullJitter, retry.EqualJitter, retry.NoJitter,
		retry.Proportional(0.1), retry.PlusMinus(2 * time.Second),
	} {
		fmt.Println(j, j.Apply(delay, limit, 0), j.Apply(delay, limit, 1<<63), j.Apply(delay, limit, 1<<64-1))
	}
	// Output:
	// full jitter 0s 5s 10s
	// equal jitter 5s 7.5s 10s
	// no jitter 10s 10s 10s
	// ±10% jitter 9s 9.75s 10.5s
	// ±2s jitter 8s 9.25s 10.5s
}

func ExamplePolicy_UnmarshalJSON() {
	var policy retry.Policy
	err := json.Unmarshal([]byte(`{
		"max_attempts": 4,
		"backoff": {"exponential": {"initial": "2s", "multiplier": 2}},
		"max_delay": "30s",
		"jitter": "full",
		"max_elapsed": "2m",
		"overrides": {"unknown": {"max_attempts": 2}}
	}`), &policy)
	fmt.Println(policy, err)

	err = json.Unmarshal([]byte(`{
		"max_attempts": 0,
		"max_delay": "1s",
		"backoff": {"exponential": {"initial": "2s", "multiplier": 0.5}},
		"jiter": "full"
	}`), &policy)
	fmt.Println(err)
	// Output:
	// 4 attempts within 2m0s, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s, 0–8s; unknown: 2 attempts <nil>
	// retry: invalid policy: jiter: "full": unknown key; did you mean jitter? (line 5 of the policy)
	// max_attempts: 0: must be at least 1; leave it out for the default (line 2 of the policy)
	// backoff.exponential.multiplier: 0.5: must be a number of at least 1, or 0 for the default (line 4 of the policy)
	// backoff.exponential.initial: 2s: is above max_delay 1s (line 4 of the policy)
}

// A Quota learns the limit that calls share: if one of them is refused, all wait, and then go
// one by one.
func ExampleQuota() {
	ctx := context.Background()
	ask := func(context.Context) error { return nil }

	quota := &retry.Quota{} // one for all calls with this API key
	policy := &retry.Policy{Name: "prompt", Quota: quota}
	err := policy.Execute(ctx, ask)
	fmt.Println(err)
	// Output: <nil>
}

// One Budget for all calls to a dependency bounds the load that retries add.
func ExampleBudget() {
	billing := &retry.Budget{} // 10 % of the successes, and a reserve of 3
	charge := &retry.Policy{Name: "charge", Budget: billing}
	refund := &retry.Policy{Name: "refund", Budget: billing}

	charge.Clock, refund.Clock = new(retrytest.Clock), new(retrytest.Clock)
	outage := func(context.Context) error { return errors.New("unavailable") }
	for _, policy := range []*retry.Policy{charge, refund, charge} {
		fmt.Println(policy.Execute(context.Background(), outage))
	}
	// Output:
	// charge failed after 3 attempts: unavailable
	// refund failed after 2 attempts (local retry budget exhausted): unavailable
	// charge failed after 1 attempt (local retry budget exhausted): unavailable
}

func ExampleObserver() {
	policy := &retry.Policy{
		Backoff: retry.Constant(time.Second),
		Jitter:  retry.NoJitter,
		Clock:   new(retrytest.Clock),
		Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
			fmt.Println(e.Kind, e.Attempt, e.Delay, e.Err)
		}),
	}
	op := retrytest.Script(errors.New("boom"), errors.New("boom"), nil)
	_ = policy.Execute(context.Background(), op.Run)
	// Output:
	// retrying 1 1s boom
	// retrying 2 1s boom
	// succeeded 3 0s <nil>
}

// job is a row of a table of yours.
type job struct {
	id    string
	state retry.State // a column of JSON, or one for each of its fields
	runAt time.Time   // when it is due
	done  bool
	err   error
}

// The state of a job lives in a database; a worker claims a job that is due, runs
// it, and stores the decision of Next.
func ExamplePolicy_Next() {
	policy := &retry.Policy{
		Name:        "export",
		MaxAttempts: 3,
		Backoff:     retry.Exponential{Initial: time.Minute},
		MaxDelay:    time.Hour,
		Jitter:      retry.NoJitter,
	}
	work := func(j *job, now time.Time, err error) {
		d := policy.Next(j.state, err, now)
		j.state = d.State
		if d.Retry {
			j.runAt = d.At
		} else {
			j.done, j.err = true, d.Err
		}
	}

	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	j := &job{id: "job-7", runAt: now, state: retry.State{First: now}}
	for !j.done {
		work(j, j.runAt, errors.New("disk is slow"))
		text, _ := j.state.MarshalText()
		fmt.Println(j.runAt.Format(time.TimeOnly), string(text))
	}
	fmt.Println(j.err)
	// Output:
	// 12:01:00 f=1 t=2026-11-21T12:00:00Z
	// 12:03:00 f=2 t=2026-11-21T12:00:00Z
	// 12:03:00 f=3 t=2026-11-21T12:00:00Z
	// export failed after 3 attempts: disk is slow
}

// With a key, the wait is the same wherever and whenever it is computed: a
// stateless daemon computes from two columns whether a row is due.
func ExamplePolicy_Delay() {
	policy := &retry.Policy{
		MaxAttempts: 8,
		Backoff:     retry.Exponential{Initial: 5 * time.Minute},
		MaxDelay:    6 * time.Hour,
		Jitter:      retry.PlusMinus(30 * time.Second),
	}
	attemptCount, updatedAt := 2, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	due := updatedAt.Add(policy.Delay(retry.State{Failures: attemptCount, Key: "partition-17"}))
	again := updatedAt.Add(policy.Delay(retry.State{Failures: attemptCount, Key: "partition-17"}))
	fmt.Println(due.Round(time.Minute).Format(time.TimeOnly), due.Equal(again))
	// Output: 12:10:00 true
}

// The attempt is counted when the job is claimed, so that a job that kills its
// worker ends too. Ask Exhausted before it runs.
func ExamplePolicy_Exhausted() {
	policy := &retry.Policy{Name: "export"}
	claimed := 4 // the column of attempts, with the one that was just claimed

	d, exhausted := policy.Exhausted(retry.State{Failures: claimed - 1}, time.Now())
	fmt.Println(exhausted, d.Err)
	// Output: true export failed after 3 attempts
}

// A loop of your own can do work between two attempts.
func ExampleCall() {
	ctx := context.Background()
	policy := &retry.Policy{Name: "fetch", Clock: new(retrytest.Clock)} // tests only: waits take no time
	reset := errors.New("connection reset")
	fetch := retrytest.Script(reset, reset, nil).Run // stands for an operation of yours

	call := retry.Call{Policy: policy}
	for call.Next(ctx) {
		err := fetch(call.Context())
		fmt.Printf("attempt %d: %v\n", call.Attempt(), err)
		call.End(err)
	}
	fmt.Println(call.Err())
	// Output:
	// attempt 1: connection reset
	// attempt 2: connection reset
	// attempt 3: <nil>
	// <nil>
}

// Only the loop over the queue blocks here: the decision says when a job is due,
// and only its state has to be kept until then.
func ExampleCall_Begin() {
	type job struct {
		name  string
		run   func(context.Context) error
		due   time.Time
		state retry.State
	}
	ctx := context.Background()
	clock := retrytest.NewClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	policy := &retry.Policy{Backoff: retry.Constant(time.Minute), Jitter: retry.NoJitter, Clock: clock}
	busy := errors.New("busy")
	queue := []job{
		{name: "mail", run: retrytest.Script(busy, busy, nil).Run, due: clock.Now()},
		{name: "sync", run: retrytest.Script(busy, busy, busy).Run, due: clock.Now().Add(30 * time.Second)},
	}
	for len(queue) > 0 {
		slices.SortFunc(queue, func(a, b job) int { return a.due.Compare(b.due) })
		next := queue[0]
		queue = queue[1:]
		clock.Advance(next.due.Sub(clock.Now())) // a timer of yours

		call := retry.Call{Policy: policy, State: next.state}
		if call.Begin(ctx) { // false if ctx is done
			d := call.End(next.run(call.Context()))
			if d.Retry {
				next.due, next.state = d.At, d.State
				queue = append(queue, next)
				continue
			}
		}
		fmt.Println(clock.Now().Format(time.TimeOnly), next.name, call.Err())
	}
	// Output:
	// 12:02:00 mail <nil>
	// 12:02:30 sync failed after 3 attempts: busy
}

// The worker of an engine: it is handed a job, and answers what becomes of it.
func ExampleStored() {
	type job struct {
		state retry.State
		lost  int // attempts whose workers died since the state was stored
		run   func(context.Context) error
	}
	policy := &retry.Policy{Name: "import", Backoff: retry.Constant(time.Minute), MaxAttempts: 2}
	work := func(ctx context.Context, j *job) string {
		attempt := retry.Stored{Policy: policy, State: j.state, Lost: j.lost}
		outcome := attempt.Attempt(ctx, j.run)
		j.state, j.lost = attempt.State, 0
		switch outcome {
		case retry.Done:
			return "done"
		case retry.Again:
			return "again later" // at attempt.Decision.At
		case retry.Ended:
			return "dead: " + attempt.Decision.Err.Error()
		default:
			return "back in the queue" // the worker stops
		}
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	busy := &job{run: retrytest.Script(errors.New("busy"), nil).Run}
	fmt.Println("busy:", work(ctx, busy))
	fmt.Println("busy:", work(ctx, busy))
	fmt.Println("poison:", work(ctx, &job{lost: 2}))
	fmt.Println("cut off:", work(ctx, &job{run: func(ctx context.Context) error {
		stop()
		return ctx.Err()
	}}))
	// Output:
	// busy: again later
	// busy: done
	// poison: dead: import failed after 2 attempts: retry: worker lost
	// cut off: back in the queue
}

// An Error keeps only the last failure. A loop of your own can keep all
// failures.
func ExampleCall_allErrors() {
	policy := &retry.Policy{Name: "upload", Clock: new(retrytest.Clock)} // tests only: waits take no time
	upload := retrytest.Script(errors.New("no route to host"), errors.New("connection reset"), errors.New("disk full")).Run

	var errs []error
	call := retry.Call{Policy: policy}
	for call.Next(context.Background()) {
		err := upload(call.Context())
		if call.End(err).Retry {
			errs = append(errs, err)
		}
	}
	if err := call.Err(); err != nil {
		fmt.Println(errors.Join(append(errs, err)...)) // err has the last failure
	}
	// Output:
	// no route to host
	// connection reset
	// upload failed after 3 attempts: disk full
}

// connect stands for a connection, a watch or a consumer: it returns when that ends.
func connect(context.Context) error { return errors.New("connection lost") }

// A loop that reconnects forever: it waits up to 1s, 2s, 4s, … 30s, and starts these
// waits again after a connection that lasted a minute. An unknown host or a bad
// certificate is Final and would end it, so the Classifier makes every error Retryable.
func Example_reconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()

	policy := &retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Exponential{Initial: time.Second},
		ResetAfter:  time.Minute,
		Classifier:  func(error) retry.Verdict { return retry.Verdict{Class: retry.Retryable} },
	}
	err := policy.Execute(ctx, connect)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// A stream that ended without an error is opened again, with the first waits of the
// backoff.
func ExampleMarkProgress() {
	errEnded := errors.New("stream ended")
	policy := &retry.Policy{MaxAttempts: 3, Clock: &retrytest.Clock{}}
	messages := 0
	err := policy.Execute(context.Background(), func(context.Context) error {
		if messages++; messages < 10 {
			return retry.MarkProgress(errEnded)
		}
		return errors.New("refused")
	})
	fmt.Println(messages, err)
	// Output: 11 failed after 3 attempts: refused
}

// "Not ready yet" is not a failure: it uses up no attempts.
func ExampleMarkPending() {
	policy := &retry.Policy{
		Timeout:   10 * time.Minute,
		Overrides: map[string]retry.Override{"pending": {Backoff: retry.Constant(5 * time.Second)}},
		Clock:     &retrytest.Clock{},
	}
	polls := 0
	err := policy.Execute(context.Background(), func(context.Context) error {
		if polls++; polls < 7 {
			return retry.MarkPending(errors.New("not ready"))
		}
		return nil
	})
	fmt.Println(polls, err)
	// Output: 7 <nil>
}

// The whole call, attempts and waits, takes no longer than Timeout.
func ExamplePolicy_timeout() {
	policy := &retry.Policy{Timeout: time.Millisecond}
	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		<-ctx.Done() // an attempt that hangs
		return ctx.Err()
	})
	fmt.Println(errors.Is(err, retry.StopTimeout))
	// Output: true
}

// Attempts that hang share the ten seconds that the caller has. What one leaves belongs to
// the others.
func ExampleEqualShare() {
	clock := &retrytest.Clock{} // tests only: waits take no time
	policy := &retry.Policy{AttemptTimeout: retry.EqualShare, Backoff: retry.Constant(500 * time.Millisecond), Jitter: retry.NoJitter, Clock: clock}
	fmt.Println(policy)

	ctx, cancel := clock.WithDeadline(context.Background(), clock.Now().Add(10*time.Second))
	defer cancel()
	start := clock.Now()
	fmt.Println(policy.Execute(ctx, func(ctx context.Context) error {
		began := clock.Now().Sub(start)
		err := clock.AdvanceContext(ctx, time.Hour) // an attempt that hangs
		fmt.Println(began.Round(time.Millisecond), "to", clock.Now().Sub(start).Round(time.Millisecond))
		return err
	}))
	// Output:
	// 3 attempts, constant 500ms, no jitter: waits 500ms, 500ms; attempts share the time left
	// 0s to 3.333s
	// 3.833s to 6.917s
	// 7.417s to 10s
	// failed after 3 attempts: context deadline exceeded
}

// A server asks for three hours. By default the call ends there. To come back sooner than
// the server says, let the Classifier shorten the hint. To come back then, store the state
// and the time: see the example of Error.State.
func ExamplePolicy_maxRetryAfter() {
	clock := new(retrytest.Clock) // tests only: waits take no time
	policy := &retry.Policy{Jitter: retry.NoJitter, Clock: clock}
	call := func(context.Context) error { return quotaError{3 * time.Hour} }
	ctx := context.Background()
	fmt.Println(policy.Execute(ctx, call))

	policy.Classifier = func(err error) retry.Verdict {
		v := retry.Classify(err)
		v.After = min(v.After, 30*time.Second)
		return v
	}
	fmt.Println(policy.Execute(ctx, call), clock.Sleeps())
	// Output:
	// failed after 1 attempt (server asks to wait 3h0m0s): the quota is used up
	// failed after 3 attempts: the quota is used up [30s 30s]
}

// quotaError is what a client returns: it knows when the server would take it back.
type quotaError struct{ after time.Duration }

func (quotaError) Error() string               { return "the quota is used up" }
func (e quotaError) RetryAfter() time.Duration { return e.after }

// The error has the exact delay.
func ExampleVerdict_exact() {
	policy := &retry.Policy{
		Classifier: func(err error) retry.Verdict {
			return retry.Verdict{Class: retry.Retryable, After: 1500 * time.Millisecond, Exact: true}
		},
	}
	d := policy.Next(retry.State{}, errors.New("busy"), time.Unix(0, 0))
	fmt.Println(d.Delay)
	// Output: 1.5s
}

// limiter adapts a rate limiter of the program, such as golang.org/x/time/rate's: AllowN
// takes the same instant.
type limiter struct{ left int }

func (l *limiter) Deposit(time.Time) {}

func (l *limiter) TryWithdraw(time.Time) bool {
	l.left--
	return l.left >= 0
}

// All calls share a throttle of the program.
func ExampleThrottle() {
	policy := &retry.Policy{MaxAttempts: 10, Backoff: retry.Constant(0), Budget: &limiter{left: 2}}
	err := policy.Execute(context.Background(), func(context.Context) error { return errors.New("down") })
	fmt.Println(err)
	// Output: failed after 3 attempts (local retry budget exhausted): down
}

// spans is an Observer that sees attempts: it could start a span for each.
type spans struct{}

func (spans) Observe(context.Context, retry.Event) {}

func (spans) Attempt(ctx context.Context, n int) (context.Context, func(error)) {
	fmt.Println("attempt", n)
	return ctx, func(err error) { fmt.Println("ended:", err) }
}

func ExampleObserver_attempts() {
	policy := &retry.Policy{Observer: spans{}}
	_ = policy.Execute(context.Background(), func(context.Context) error { return nil })
	// Output:
	// attempt 1
	// ended: <nil>
}
