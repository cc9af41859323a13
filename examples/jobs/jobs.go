// Package jobs shows fifteen uses of retries, each as one function that can be copied:
//
//   - [HTTPClient]: HTTP with a limit for the whole call
//   - [Import]: many tasks, and their progress
//   - [WithMockClock]: a test with a mock clock
//   - [Retry]: the usual call; its test runs in a bubble of testing/synctest
//   - [Reconnect]: a connection that is made again forever
//   - [Poll]: poll until ready, and retry real errors
//   - [Reschedule]: a job whose state is a column of a table
//   - [PerKind]: a limit and a wait for each kind of error
//   - [AllErrors]: the number of the attempt, and the errors of all attempts
//   - [Answer]: a response with status 200 that holds an error
//   - [SigningClient]: every attempt is signed anew
//   - [Throttled]: calls that share a throttle
//   - [ExactDelay]: the error knows how long to wait
//   - [Command]: a command in a terminal
//   - [Nested]: a policy around a policy
//
// Package jobstest checks each job, and the tests of this package call it. In
// lab/jobs other libraries do the same jobs under the same checks, and the lines
// of code are counted.
package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// HTTPClient returns a client whose calls take no longer than ten seconds: attempts,
// waits, and the reading of the response. base makes the attempts; nil is
// http.DefaultTransport.
func HTTPClient(base http.RoundTripper) *http.Client {
	policy := &retry.Policy{Timeout: 10 * time.Second}
	return &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: policy}}
}

// Import loads files, four at a time. It reports the end of each, after its retries, with
// the number of ended files. A file that waits for its retry holds no worker.
func Import(
	ctx context.Context, files []string, load func(context.Context, string) error, progress func(ended int, err error),
) error {
	var ended atomic.Int64
	pool := &retrypool.Pool{Workers: 4, OnEnd: func(_ context.Context, task *retrypool.Task) {
		progress(int(ended.Add(1)), task.Err())
	}}
	for _, file := range files {
		if _, err := pool.Submit(ctx, func(ctx context.Context) error { return load(ctx, file) }); err != nil {
			return err
		}
	}
	return pool.Wait(ctx)
}

// WithMockClock runs an operation on a mock clock, such as
// github.com/benbjohnson/clock's, that moves while the policy waits. Production code
// keeps the nil Clock.
func WithMockClock(ctx context.Context, mock retrytest.Mock, op func(context.Context) error) error {
	policy := &retry.Policy{Jitter: retry.NoJitter, Clock: retrytest.Auto(mock)}
	return policy.Execute(ctx, op)
}

// Retry retries an operation under the zero policy. In a test it needs no clock: in a
// bubble of testing/synctest its waits take no time.
func Retry(ctx context.Context, op func(context.Context) error) error {
	return (&retry.Policy{}).Execute(ctx, op)
}

// Reconnect connects again whenever connect returns an error, until ctx ends or connect
// returns nil. It waits up to 1s, 2s, 4s, … 30s, and starts these waits again after a
// connection that lasted a minute. The Classifier retries even Final errors, such as an
// unknown host.
func Reconnect(ctx context.Context, connect func(context.Context) error) error {
	policy := &retry.Policy{
		MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Initial: time.Second}, ResetAfter: time.Minute,
		Classifier: func(error) retry.Verdict { return retry.Verdict{Class: retry.Retryable} },
	}
	return policy.Execute(ctx, connect)
}

var errNotReady = errors.New("not ready")

// Poll asks every five seconds, for ten minutes at most. Three errors of check end it;
// "not ready" is not an error.
func Poll(ctx context.Context, check func(context.Context) (bool, error)) error {
	policy := &retry.Policy{Timeout: 10 * time.Minute, Backoff: retry.Constant(5 * time.Second), Jitter: retry.NoJitter}
	return policy.Execute(ctx, func(ctx context.Context) error {
		ready, err := check(ctx)
		if err == nil && !ready {
			err = retry.MarkPending(errNotReady)
		}
		return err
	})
}

// Reschedule returns the values to store in the row of a job that has failed: its state,
// and when it is due, or that it has ended.
func Reschedule(state retry.State, failure error, now time.Time) (next retry.State, due time.Time, ended bool) {
	policy := &retry.Policy{
		MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Minute}, MaxDelay: time.Hour, Jitter: retry.NoJitter,
	}
	d := policy.Next(state, failure, now)
	return d.State, d.At, !d.Retry
}

// The kinds of failures of [PerKind].
var (
	ErrBusy     = errors.New("busy")
	ErrConflict = errors.New("conflict")
	ErrGone     = errors.New("gone")
)

// PerKind makes five attempts, a second apart. After a conflict it makes only one more,
// at once, and after a resource is gone none.
func PerKind(ctx context.Context, op func(context.Context) error) error {
	policy := &retry.Policy{
		MaxAttempts: 5, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter,
		Classifier: retry.Chain(retry.On(retry.Final, ErrGone), retry.On(retry.Retryable, ErrConflict)),
		Overrides:  map[string]retry.Override{"retryable": {MaxAttempts: 2, Backoff: retry.Constant(0)}},
	}
	return policy.Execute(ctx, op)
}

// AllErrors gives the operation the number of its attempt. It returns the error of each
// attempt, and the error of the call.
func AllErrors(ctx context.Context, op func(ctx context.Context, attempt int) error) (all []error, err error) {
	call := retry.Call{}
	for call.Next(ctx) {
		err := op(call.Context(), call.Attempt())
		all = append(all, err)
		call.End(err)
	}
	return all, call.Err()
}

// Answer gets the result from a server that answers {"result": …} or, with the same
// status of 200, {"error": …}. Only that error and the failures that a Transport
// retries are retried.
func Answer(ctx context.Context, client *http.Client, url string) (string, error) {
	var answer struct{ Result, Error string }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	err = retryhttp.Do(client, nil, req, func(resp *http.Response) error {
		answer.Error = ""
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Error == "" {
			return err
		}
		return retry.MarkRetryable(errors.New(answer.Error))
	})
	return answer.Result, err
}

// SigningClient returns a client that signs every attempt anew, because a signature
// contains a time.
func SigningClient(base http.RoundTripper, sign func(*http.Request) error) *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{Base: base, Prepare: sign}}
}

// Throttled returns a function that runs operations. Without successes, they make
// three retries in all.
func Throttled() func(context.Context, func(context.Context) error) error {
	policy := &retry.Policy{Budget: &retry.Budget{Reserve: 3}}
	return policy.Execute
}

// BusyError is an error that has the time to wait.
type BusyError struct{ Wait time.Duration }

// Error implements error.
func (e *BusyError) Error() string { return fmt.Sprintf("busy for %v", e.Wait) }

// ExactDelay waits as long as a [BusyError] says, to the nanosecond.
func ExactDelay(ctx context.Context, op func(context.Context) error) error {
	policy := &retry.Policy{Classifier: func(err error) retry.Verdict {
		busy := &BusyError{}
		found := errors.As(err, &busy)
		return retry.Verdict{After: busy.Wait, Exact: found}
	}}
	return policy.Execute(ctx, op)
}

// Command runs a command. Its output goes to the terminal while it runs.
func Command(ctx context.Context, name string, arg ...string) error {
	return retryexec.Run(ctx, nil, retryexec.Command(name, arg...))
}

// Nested has a policy around another one, as in a program that calls a library which
// retries too. The attempts do not multiply: the error of an inner policy that gave up is
// Final to the outer one.
func Nested(ctx context.Context, op func(context.Context) error) error {
	outer, inner := &retry.Policy{}, &retry.Policy{}
	return outer.Execute(ctx, func(ctx context.Context) error { return inner.Execute(ctx, op) })
}
