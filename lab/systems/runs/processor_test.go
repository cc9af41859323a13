//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// test is a processor whose runs do what the test says.
type test struct {
	*processor

	t    *testing.T
	errs []error // of the attempts to come; then success
	logs dbtest.Output
	late error // of the last run that was somebody else's by its end
}

func newTest(t *testing.T, db *shared.DB) *test {
	t.Helper()
	p := &test{t: t}
	p.processor = &processor{
		store: newTestStore(t, db), policy: defaultPolicy, poll: time.Millisecond,
		log: slog.New(slog.NewTextHandler(&p.logs, nil)),
		replay: func(context.Context, *request) (outcome, error) {
			if len(p.errs) == 0 {
				return passed, nil
			}
			err := p.errs[0]
			p.errs = p.errs[1:]
			return "", err
		},
	}
	return p
}

// one processes one run, or none if found is false.
func (p *test) one(found bool) {
	p.t.Helper()
	n, err := p.worker(1).Once(p.t.Context())
	if errors.Is(err, retrytable.ErrLeaseLost) {
		p.late, err = err, nil
	}
	require.NoError(p.t, err)
	require.Equal(p.t, found, n > 0)
}

var changing = regexp.MustCompile(`time=\S+ | category=\S+`)

// logged returns what was logged since the last call.
func (p *test) logged() []string {
	return strings.Split(strings.TrimSpace(changing.ReplaceAllString(p.logs.Rest(), "")), "\n")
}

func TestRetryWorkflowEndToEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		submit(t, db, "web", "a")
		p.errs = []error{errPassing, limited(0), limited(2 * time.Hour), errPassing}
		p.one(true)
		assert.Equal(t, record{"error", 1, "retryable", time.Minute, false}, read(t, db, "a"))
		p.one(false)

		forward(t, db, time.Minute)
		p.one(true)
		assert.Equal(t, record{"error", 2, "rate_limited", 2 * time.Minute, false}, read(t, db, "a"))

		forward(t, db, 2*time.Minute)
		p.one(true)
		assert.Equal(t, record{"error", 2, "rate_limited", 2 * time.Hour, false}, read(t, db, "a"), "retry_count as before, and what was asked for")

		forward(t, db, 2*time.Hour)
		p.one(true)
		assert.Equal(t, record{"error", 3, "retryable", 4 * time.Minute, false}, read(t, db, "a"), "not counted anew")

		forward(t, db, 4*time.Minute)
		p.one(true)
		assert.Equal(t, record{status: "passed"}, read(t, db, "a"))
		p.one(false)
	})
}

// A processor picks up a retry when it is due, and not a moment before. The pickup
// clears next_retry_at and counts the retry, so that a crash cannot hide it.
func TestProcessorPicksUpRetryRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		submit(t, db, "web", "a")
		p.errs = []error{errPassing}
		p.one(true)
		forward(t, db, 55*time.Second)
		p.one(false)
		assert.Equal(t, "error", read(t, db, "a").status, "unchanged while it waits")
		forward(t, db, 5*time.Second)
		p.replay = func(context.Context, *request) (outcome, error) {
			assert.Equal(t, record{"processing", 1, "retryable", 0, true}, read(t, db, "a"))
			return passed, nil
		}
		p.one(true)
	})
}

func TestPermanentFailureAfterMaxAttempts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		submit(t, db, "web", "a")
		for attempt := 1; attempt <= 8; attempt++ {
			p.replay = func(context.Context, *request) (outcome, error) {
				assert.Equal(t, attempt-1, read(t, db, "a").retryCount, "retries so far")
				return "", errPassing
			}
			p.one(true)
			assert.Equal(t, min(attempt, 7), read(t, db, "a").retryCount, "retries granted")
			forward(t, db, time.Hour)
		}
		assert.Equal(t, record{"error", 7, "retryable", 0, false}, read(t, db, "a"))
		p.one(false)
	})
}

func TestFinalErrorIsPermanentFailure(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		submit(t, db, "web", "a", "b")
		p.errs = []error{errBroken, errPassing, errBroken}
		p.one(true)
		p.one(true)
		forward(t, db, time.Minute)
		p.one(true)
		p.one(false)
		assert.Equal(t, record{"error", 0, "final", 0, false}, read(t, db, "a"))
		assert.Equal(t, record{"error", 1, "final", 0, false}, read(t, db, "b"))
	})
}

// Each of the states of success clears the retry fields.
func TestSuccessfulRetryClearsRetryFields(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		for _, result := range []outcome{passed, needsReview, failed} {
			submit(t, db, "web", string(result))
			p.errs = []error{errPassing}
			p.one(true)
			assert.Equal(t, record{"error", 1, "retryable", time.Minute, false}, read(t, db, string(result)))
			forward(t, db, time.Minute)
			before := p.replay
			p.replay = func(context.Context, *request) (outcome, error) { return result, nil }
			p.one(true)
			p.replay = before
			assert.Equal(t, record{status: string(result)}, read(t, db, string(result)))
		}
		p.one(false)
	})
}

// Logged are: an initial attempt and a retry, a retry that is scheduled with its
// number and delay, the end of the attempts, and a retry that succeeds.
func TestLogging(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		p.policy = (&RetryConfig{2, time.Minute, time.Hour, 2}).policy()
		submit(t, db, "web", "a", "b", "c", "d")
		p.errs = []error{errPassing, errBroken, limited(0)}
		for range 4 {
			p.one(true)
		}
		assert.Equal(t, []string{
			`level=INFO msg=attempt run=a attempt=1 retry=false`,
			`level=WARN msg="retry scheduled" run=a error="connection reset" error_class=retryable attempt=2 delay=1m0s`,
			`level=INFO msg=attempt run=b attempt=1 retry=false`,
			`level=ERROR msg="permanently failed" run=b error="no such test" error_class=final reason=final`,
			`level=INFO msg=attempt run=c attempt=1 retry=false`,
			`level=WARN msg="retry scheduled" run=c error="too many requests" error_class=rate_limited attempt=2 delay=1m0s`,
			`level=INFO msg=attempt run=d attempt=1 retry=false`,
			`level=INFO msg=succeeded run=d attempt=1 retry=false status=passed`,
		}, p.logged())
		forward(t, db, time.Minute)
		p.errs = []error{errPassing}
		p.one(true)
		p.one(true)
		assert.Equal(t, []string{
			`level=INFO msg=attempt run=a attempt=2 retry=true`,
			`level=ERROR msg="max attempts reached" run=a error="connection reset" error_class=retryable attempts=2`,
			`level=INFO msg=attempt run=c attempt=2 retry=true`,
			`level=INFO msg=succeeded run=c attempt=2 retry=true status=passed`,
		}, p.logged())
	})
}

// A run whose processor died is taken over when its lease has run out, as a
// failure like others.
func TestDeadProcessor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		submit(t, db, "web", "a")
		for attempt := 1; attempt <= 8; attempt++ {
			assert.Equal(t, []string{"a"}, claimed(t, p.store, 1))
			forward(t, db, 55*time.Second)
			p.one(false)
			assert.Equal(t, record{"processing", attempt - 1, map[bool]string{false: "retryable"}[attempt == 1], 0, true}, read(t, db, "a"))
			forward(t, db, 5*time.Second)
			p.one(false)
			if attempt < 8 {
				assert.Equal(t, record{"error", attempt, "retryable", min(time.Hour, time.Minute<<(attempt-1)), false}, read(t, db, "a"))
			}
			forward(t, db, time.Hour)
		}
		assert.Equal(t, record{"error", 7, "retryable", 0, false}, read(t, db, "a"))
		lines := p.logged()
		assert.Equal(t, `level=ERROR msg="max attempts reached" run=a error="retry: worker lost" error_class=retryable attempts=8`, lines[len(lines)-1])
	})
}

// A run that is due is processed, also under a limit that was lowered, and then it ends.
func TestLoweredLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		submit(t, db, "web", "a")
		retryIn(t, db, 0, "true")
		dbtest.Exec(t, db, "UPDATE runs SET retry_count = 5")
		p.policy = (&RetryConfig{5, time.Minute, time.Hour, 2}).policy()
		p.errs = []error{errPassing}
		p.one(true)
		assert.Empty(t, p.errs, "it was processed")
		assert.Equal(t, record{"error", 5, "retryable", 0, false}, read(t, db, "a"))
	})
}

// Who comes too late changes nothing.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"success": nil, "failure": errPassing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db *shared.DB) {
				p, other := newTest(t, db), newTest(t, db)
				submit(t, db, "web", "a")
				var taken record
				p.replay = func(context.Context, *request) (outcome, error) {
					forward(t, db, time.Minute)
					other.one(false)
					taken = read(t, db, "a")
					return passed, err
				}
				p.one(true)
				assert.Equal(t, record{"error", 1, "retryable", time.Minute, false}, taken)
				assert.Equal(t, taken, read(t, db, "a"))
				assert.ErrorContains(t, p.late, "job a")
				assert.Len(t, p.logged(), 1, "that it began")
			})
		})
	}
}

// An attempt must end before its lease does. One that takes longer is retried.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		p.store = newStore(db, 4*time.Second, "")
		submit(t, db, "web", "a")
		p.replay = func(ctx context.Context, _ *request) (outcome, error) {
			deadline, _ := ctx.Deadline()
			assert.LessOrEqual(t, time.Until(deadline), p.Lease/2)
			<-ctx.Done()
			return "", ctx.Err()
		}
		p.one(true)
		assert.Equal(t, record{"error", 1, "retryable", time.Minute, false}, read(t, db, "a"))
	})
}

// A processor that is interrupted gives its run back to be processed at once, and the
// attempt does not count. If the run has come to an end, that is stored.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		interrupt := func(id string, err error, want record) {
			submit(t, db, "web", id)
			if want.errorClass != "" {
				retryIn(t, db, 0, "id = '"+id+"'")
			}
			ctx, stop := context.WithCancel(t.Context())
			p.replay = func(context.Context, *request) (outcome, error) {
				stop()
				return needsReview, err
			}
			assert.ErrorIs(t, p.worker(1).Run(ctx), context.Canceled)
			assert.Equal(t, want, read(t, db, id))
			dbtest.Exec(t, db, "DELETE FROM runs")
		}
		interrupt("new", context.Canceled, record{status: "discovered"})
		interrupt("retry", context.Canceled, record{status: "discovered", retryCount: 1, errorClass: "retryable"})
		interrupt("ended", nil, record{status: "needs_review"})

		submit(t, db, "web", "a")
		retryIn(t, db, 0, "true")
		rows, err := p.Claim(t.Context(), db, 1)
		require.NoError(t, err)
		require.NoError(t, p.Release(t.Context(), db, rows[0].Lease))
		assert.Equal(t, []string{"a"}, claimed(t, p.store, 1), "due at once")
		assert.Equal(t, 1, read(t, db, "a").retryCount)
	})
}

// A database that fails for a moment does not end a processor.
func TestDatabaseFails(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		ctx, stop := context.WithCancel(t.Context())
		submit(t, db, "web", "first")
		p.replay = func(_ context.Context, r *request) (outcome, error) {
			if r.ID == "a" {
				stop()
			}
			return passed, nil
		}
		var serving sync.WaitGroup
		p.poll = 20 * time.Millisecond
		serving.Go(func() { assert.ErrorIs(t, p.worker(1).Run(ctx), context.Canceled) })
		p.logs.Await(t, "succeeded run=first")
		dbtest.Exec(t, db, "ALTER TABLE runs RENAME TO gone")
		p.logs.Await(t, `level=ERROR msg=processor error="retrytable: (sweep|claim): .*runs`)
		dbtest.Exec(t, db, "ALTER TABLE gone RENAME TO runs")
		submit(t, db, "web", "a")
		serving.Wait()
		assert.Equal(t, record{status: "passed"}, read(t, db, "a"))
	})
}

// A run that cannot be read has not been tried.
func TestUnreadableRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		submit(t, db, "web", "a")
		dbtest.Exec(t, db, "ALTER TABLE runs RENAME COLUMN url TO gone")
		_, err := p.worker(1).Once(t.Context())
		require.ErrorContains(t, err, "url")
		assert.Zero(t, read(t, db, "a").retryCount)
		dbtest.Exec(t, db, "ALTER TABLE runs RENAME COLUMN gone TO url")
		p.one(false) // it waits for a lease
	})
}

// large is the length of an answer that is compared whole.
const large = 1<<20 + 4

// The class of a failure is that of the answer.
func TestReplay(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/503":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/404":
			w.WriteHeader(http.StatusNotFound)
		case "/429":
			w.WriteHeader(http.StatusTooManyRequests)
		case "/429-90":
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/cut":
			w.Header().Set("Content-Length", "10")
		case "/large":
			_, _ = w.Write(make([]byte, large-len("answer")))
		}
		_, _ = w.Write([]byte("answer"))
	}))
	t.Cleanup(server.Close)
	answer, other := "answer", "other"
	all := string(make([]byte, large-len(answer))) + answer
	most := all[:1<<20]
	for _, test := range []struct {
		url      string
		expected *string
		want     outcome
		class    retry.Class
		after    time.Duration
	}{
		{server.URL, &answer, passed, 0, 0},
		{server.URL, &other, failed, 0, 0},
		{server.URL, nil, needsReview, 0, 0},
		{server.URL + "/large", &all, passed, 0, 0},
		{server.URL + "/large", &most, failed, 0, 0},
		{server.URL + "/large", nil, needsReview, 0, 0},
		{server.URL + "/503", &answer, "", retry.Retryable, 0},
		{server.URL + "/cut", &answer, "", retry.Retryable, 0},
		{server.URL + "/cut", nil, "", retry.Retryable, 0},
		{server.URL + "/404", &answer, "", retry.Final, 0},
		{server.URL + "/429", &answer, "", retry.RateLimited, 0},
		{server.URL + "/429-90", &answer, "", retry.RateLimited, 90 * time.Second},
		{"http://127.0.0.1:1", &answer, "", retry.Retryable, 0},
		{"http://\x00?token=secret", &answer, "", retry.Final, 0},
		{"gopher://127.0.0.1/?token=secret", &answer, "", retry.Final, 0},
	} {
		t.Run(strings.ReplaceAll(test.url, server.URL, "server"), func(t *testing.T) {
			t.Parallel()
			got, err := replay(t.Context(), &request{Job: &retrytable.Job[string]{}, url: test.url, expected: test.expected})
			v := defaultPolicy.Next(retry.State{}, err, time.Now()).Verdict
			assert.Equal(t, test.class, v.Class, err)
			assert.Equal(t, test.after, v.After)
			if err == nil {
				assert.Equal(t, test.want, got)
			} else {
				assert.NotContains(t, err.Error(), "secret")
			}
		})
	}
}
