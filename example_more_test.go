package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

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

func ExampleObserver() {
	policy := &retry.Policy{
		Backoff: retry.Constant(time.Second),
		Jitter:  retry.NoJitter,
		Clock:   new(retrytest.Clock),
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			fmt.Println(e.Kind, e.Attempt, e.Delay, e.Err)
		}},
	}
	op := retrytest.Script(errors.New("boom"), errors.New("boom"), nil)
	_ = policy.Execute(context.Background(), op.Run)
	// Output:
	// retrying 1 1s boom
	// retrying 2 1s boom
	// succeeded 3 0s <nil>
}

func ExampleObserver_attempts() {
	policy := &retry.Policy{Observer: &retry.Observer{
		Attempt: func(ctx context.Context, n int) (context.Context, func(error)) { // could start a span
			fmt.Println("attempt", n)
			return ctx, func(err error) { fmt.Println("ended:", err) }
		},
	}}
	_ = policy.Execute(context.Background(), func(context.Context) error { return nil })
	// Output:
	// attempt 1
	// ended: <nil>
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

func ExamplePolicy_Classify() {
	policy, err := &retry.Policy{}, io.ErrUnexpectedEOF
	verdict := policy.Classify(err)                  // Retryable, "eof"
	err = retry.MarkRateLimited(err, 10*time.Second) // the server asked for a wait
	policy.Clock = new(retrytest.Clock)              // in tests, waits take no time
	fmt.Println(verdict.Class, verdict.Category, policy.Classify(err).Class)
	// Output: retryable eof rate_limited
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

func (quotaError) Error() string { return "the quota is used up" }

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
