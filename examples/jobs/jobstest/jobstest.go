// Package jobstest checks the jobs of package jobs, with any library. Every function runs
// a job in a bubble of testing/synctest, so waits take no time, and reports faults.
package jobstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The kinds of jobs.
type (
	// Op is an operation that is retried.
	Op = func(context.Context) error

	// Runner runs an operation.
	Runner = func(context.Context, Op) error
)

var errDown = errors.New("down")

// bubble runs test in a bubble, with a context that ends with it.
func bubble(t *testing.T, test func(*testing.T, context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, t.Context()) })
}

func check(t *testing.T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// attempts has the results of the attempts of an operation, one after another; the last
// one repeats.
type attempts struct {
	errs  []error
	times []time.Time
}

func (a *attempts) run(context.Context) error {
	a.times = append(a.times, time.Now())
	return a.errs[min(len(a.times), len(a.errs))-1]
}

// waits returns the waits between the attempts.
func (a *attempts) waits() (waits []time.Duration) {
	for i := 1; i < len(a.times); i++ {
		waits = append(waits, a.times[i].Sub(a.times[i-1]))
	}
	return waits
}

// roundTripper is a handler that is asked without a network, which a bubble needs.
type roundTripper http.HandlerFunc

func (h roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	h(recorder, req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return recorder.Result(), nil
}

func get(ctx context.Context, client *http.Client) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// HTTPClient checks a client whose calls take no longer than ten seconds.
func HTTPClient(t *testing.T, job func(http.RoundTripper) *http.Client) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		requests := 0
		resp, err := get(ctx, job(roundTripper(func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})))
		if err != nil || resp.StatusCode != http.StatusOK || resp.Body.Close() != nil {
			t.Errorf("two failures and a success: %v, %v", resp, err)
		}
	})
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		began := time.Now()
		resp, err := get(ctx, job(roundTripper(func(_ http.ResponseWriter, req *http.Request) {
			<-req.Context().Done() // it hangs
		})))
		if err == nil {
			_ = resp.Body.Close()
		}
		check(t, err != nil && time.Since(began) == 10*time.Second, "a server that hangs: %v after %v", err, time.Since(began))
	})
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		began := time.Now()
		resp, err := get(ctx, job(hangingBody{}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(resp.Body)
		check(t, err != nil && time.Since(began) == 10*time.Second, "a body that hangs: %v after %v", err, time.Since(began))
		_ = resp.Body.Close()
	})
}

// hangingBody answers at once, with a body that never comes.
type hangingBody struct{ ctx context.Context } //nolint:containedctx // of the request

func (hangingBody) RoundTrip(req *http.Request) (*http.Response, error) {
	body := hangingBody{req.Context()}
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: req}, nil
}

func (b hangingBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func (hangingBody) Close() error { return nil }

// Import checks that files are loaded four at a time, and that progress counts the ended
// ones.
func Import(t *testing.T, job func(context.Context, []string, func(context.Context, string) error, func(int, error)) error) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		var mu sync.Mutex
		calls, running, most := map[string]int{}, 0, 0
		var ended []int
		failed := 0
		var files []string
		for i := range 20 {
			files = append(files, fmt.Sprint("file ", i))
		}
		err := job(ctx, files, func(_ context.Context, file string) error {
			mu.Lock()
			calls[file]++
			running++
			most = max(most, running)
			n := calls[file]
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			if n == 1 && strings.HasSuffix(file, "3") || file == "file 7" {
				return errDown // 3 and 13 once, 7 always
			}
			return nil
		}, func(n int, err error) {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, n)
			if err != nil {
				failed++
			}
		})
		slices.Sort(ended)
		check(t, err == nil && len(ended) == 20 && ended[19] == 20, "progress: %v, %v", ended, err)
		check(t, failed == 1, "%d have failed", failed)
		check(t, calls["file 3"] == 2 && calls["file 13"] == 2 && calls["file 4"] == 1, "calls: %v", calls)
		check(t, most == 4, "%d at a time", most)
	})
}

// Clock is a mock clock.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
	Add(time.Duration)
}

// WithMockClock checks that a job waits by a mock clock, which moves meanwhile.
func WithMockClock[C Clock](t *testing.T, mock C, job func(context.Context, C, Op) error) {
	t.Helper()
	op := &attempts{errs: []error{errDown, errDown, nil}}
	began, mocked := time.Now(), mock.Now()
	err := job(t.Context(), mock, op.run)
	check(t, err == nil && len(op.times) == 3, "%d attempts, %v", len(op.times), err)
	check(t, mock.Now().Sub(mocked) == 6*time.Second, "the mock has moved by %v", mock.Now().Sub(mocked))
	check(t, time.Since(began) < 5*time.Second, "it has waited for %v", time.Since(began))
}

// Retry checks that a call whose first two attempts fail waits, which takes no time in a
// bubble.
func Retry(t *testing.T, job Runner) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		op := &attempts{errs: []error{errDown, errDown, nil}}
		err := job(ctx, op.run)
		check(t, err == nil && len(op.times) == 3, "%d attempts, %v", len(op.times), err)
		check(t, time.Since(op.times[0]) > 0, "no waits: %v", op.waits())
	})
}

// Reconnect checks that a connection is made again forever, whatever the error is, with
// growing waits that start again after a healthy minute.
func Reconnect(t *testing.T, job Runner) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		ctx, cancel := context.WithCancel(ctx)
		var began, ended []time.Time
		_ = job(ctx, func(context.Context) error {
			began = append(began, time.Now())
			switch len(began) {
			case 50:
				time.Sleep(2 * time.Minute) // healthy
			case 55:
				cancel()
			}
			ended = append(ended, time.Now())
			return &net.DNSError{Err: "no such host", IsNotFound: true}
		})
		if len(began) != 55 {
			t.Fatalf("it gave up after %d connections", len(began))
		}
		longest := time.Duration(0)
		for i := 1; i < 50; i++ {
			longest = max(longest, began[i].Sub(ended[i-1]))
		}
		check(t, longest > 8*time.Second && longest <= time.Minute, "the longest wait was %v", longest)
		anew := began[50].Sub(ended[49])
		check(t, anew <= 2*time.Second, "after a healthy minute it waited for %v", anew)
	})
}

// Poll checks that a job asks every five seconds for ten minutes, that "not ready" uses up
// no attempts, and that the third error ends it.
func Poll(t *testing.T, job func(context.Context, func(context.Context) (bool, error)) error) {
	t.Helper()
	tests := []struct {
		name    string
		check   func(n int) (bool, error)
		calls   int
		succeed bool
		lasts   time.Duration
	}{
		{"ready", func(n int) (bool, error) { return n == 100, nil }, 100, true, 99 * 5 * time.Second},
		{"two errors", func(n int) (bool, error) {
			if n == 40 || n == 80 {
				return false, errDown
			}
			return n == 100, nil
		}, 100, true, 99 * 5 * time.Second},
		{"three errors", func(n int) (bool, error) {
			if n > 20 {
				return false, errDown
			}
			return false, nil
		}, 23, false, 22 * 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, ctx context.Context) {
				t.Helper()
				calls, began := 0, time.Now()
				err := job(ctx, func(context.Context) (bool, error) {
					calls++
					return tt.check(calls)
				})
				check(t, calls == tt.calls && (err == nil) == tt.succeed, "%d calls, %v", calls, err)
				check(t, time.Since(began) == tt.lasts, "it took %v", time.Since(began))
			})
		})
	}
	t.Run("never ready", func(t *testing.T) {
		bubble(t, func(t *testing.T, ctx context.Context) {
			t.Helper()
			began := time.Now()
			err := job(ctx, func(context.Context) (bool, error) { return false, nil })
			took := time.Since(began)
			check(t, err != nil && took > 9*time.Minute && took <= 10*time.Minute, "it took %v: %v", took, err)
		})
	})
}

// Reschedule checks a job whose state is stored after each of its four attempts: it
// is due after 1, 2 and 4 minutes, and then it has ended.
func Reschedule(t *testing.T, fail func(failure error, now time.Time) (due time.Time, ended bool)) {
	t.Helper()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, minutes := range []int{1, 2, 4} {
		due, ended := fail(errDown, now)
		check(t, !ended && due.Equal(now.Add(time.Duration(minutes)*time.Minute)), "due at %v, ended: %v", due, ended)
		now = due
	}
	_, ended := fail(errDown, now)
	check(t, ended, "four attempts and no end")
}

// PerKind checks five attempts, a second apart; one more, at once, after a conflict; and
// no more after a resource is gone.
func PerKind(t *testing.T, busy, conflict, gone error, job Runner) {
	t.Helper()
	const s = time.Second
	for _, tt := range []struct {
		err   error
		waits []time.Duration
	}{{busy, []time.Duration{s, s, s, s}}, {conflict, []time.Duration{0}}, {gone, nil}} {
		bubble(t, func(t *testing.T, ctx context.Context) {
			t.Helper()
			op := &attempts{errs: []error{tt.err}}
			err := job(ctx, op.run)
			check(t, errors.Is(err, tt.err) && slices.Equal(op.waits(), tt.waits), "%v: waits %v, %v", tt.err, op.waits(), err)
		})
	}
}

// AllErrors checks that an operation knows the number of its attempt, and that the errors
// of all three attempts are returned.
func AllErrors(t *testing.T, job func(context.Context, func(context.Context, int) error) ([]error, error)) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		all, err := job(ctx, func(_ context.Context, attempt int) error { return fmt.Errorf("attempt %d failed", attempt) })
		want := "[attempt 1 failed attempt 2 failed attempt 3 failed]"
		check(t, err != nil && fmt.Sprint(all) == want, "%v, %v", all, err)
	})
}

// Joined checks that the error of a call has the errors of all three attempts, and
// that a success has no error.
func Joined(t *testing.T, job func(context.Context, func(context.Context, int) error) error) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		first := errors.New("the first failure")
		err := job(ctx, func(_ context.Context, attempt int) error {
			if attempt == 1 {
				return first
			}
			return errDown
		})
		check(t, errors.Is(err, first) && errors.Is(err, errDown), "%v", err)
		err = job(ctx, func(_ context.Context, attempt int) error {
			if attempt == 1 {
				return first
			}
			return nil
		})
		check(t, err == nil, "after a success: %v", err)
	})
}

// Answer checks that an error in a response with status 200 is retried, and so is a 503.
func Answer(t *testing.T, job func(context.Context, *http.Client, string) (string, error)) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		requests := 0
		client := &http.Client{Transport: roundTripper(func(w http.ResponseWriter, _ *http.Request) {
			switch requests++; requests {
			case 1:
				w.WriteHeader(http.StatusServiceUnavailable)
			case 2:
				_, _ = io.WriteString(w, `{"error": "busy"}`)
			default:
				_, _ = io.WriteString(w, `{"result": "42"}`)
			}
		})}
		result, err := job(ctx, client, "http://127.0.0.1/")
		check(t, err == nil && result == "42" && requests == 3, "%q after %d requests, %v", result, requests, err)
	})
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		requests := 0
		client := &http.Client{Transport: roundTripper(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.WriteHeader(http.StatusNotFound)
		})}
		_, err := job(ctx, client, "http://127.0.0.1/")
		check(t, err != nil && requests == 1, "a 404: %d requests, %v", requests, err)
	})
}

// SigningClient checks that each attempt has a signature of its own.
func SigningClient(t *testing.T, job func(http.RoundTripper, func(*http.Request) error) *http.Client) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		signed := 0
		var seen []string
		client := job(roundTripper(func(w http.ResponseWriter, req *http.Request) {
			if seen = append(seen, strings.Join(req.Header["Signature"], ",")); len(seen) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}), func(req *http.Request) error {
			signed++
			req.Header.Set("Signature", fmt.Sprint("n", signed))
			return nil
		})
		resp, err := get(ctx, client)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Body.Close() != nil {
			t.Errorf("two failures and a success: %v, %v", resp, err)
		}
		check(t, slices.Equal(seen, []string{"n1", "n2", "n3"}), "signatures: %v", seen)
	})
}

// Limited checks that ten calls in an outage ask a limiter for each retry, and make the
// three that it allows.
func Limited(t *testing.T, job func(context.Context, func() bool, Op) error) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		left := 3
		op := &attempts{errs: []error{errDown}}
		for range 10 {
			err := job(ctx, func() bool { left--; return left >= 0 }, op.run)
			check(t, errors.Is(err, errDown), "%v", err)
		}
		check(t, len(op.times) == 13, "%d attempts of ten calls", len(op.times))
	})
}

// PlainPoll checks that a job asks every five seconds for ten minutes, and that an error
// ends it.
func PlainPoll(t *testing.T, job func(context.Context, func(context.Context) (bool, error)) error) {
	t.Helper()
	for _, end := range []error{nil, errDown} {
		bubble(t, func(t *testing.T, ctx context.Context) {
			t.Helper()
			calls, began := 0, time.Now()
			err := job(ctx, func(context.Context) (bool, error) {
				if calls++; calls == 100 {
					return end == nil, end
				}
				return false, nil
			})
			check(t, errors.Is(err, end) && calls == 100, "%d calls, %v", calls, err)
			check(t, time.Since(began) == 99*5*time.Second, "it took %v", time.Since(began))
		})
	}
}

// Throttled checks that ten calls in an outage make three retries in all.
func Throttled(t *testing.T, job func() Runner) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		run := job()
		op := &attempts{errs: []error{errDown}}
		for range 10 {
			err := run(ctx, op.run)
			check(t, errors.Is(err, errDown), "%v", err)
		}
		check(t, len(op.times) == 13, "%d attempts of ten calls", len(op.times))
	})
}

// ExactDelay checks that a call waits as long as its errors say.
func ExactDelay(t *testing.T, busy func(time.Duration) error, job Runner) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		op := &attempts{errs: []error{
			fmt.Errorf("put: %w", busy(1500*time.Millisecond)), busy(time.Nanosecond), nil,
		}}
		err := job(ctx, op.run)
		want := []time.Duration{1500 * time.Millisecond, time.Nanosecond}
		check(t, err == nil && slices.Equal(op.waits(), want), "waits %v, %v", op.waits(), err)
	})
}

// Nested checks that two layers with three attempts each make three.
func Nested(t *testing.T, job Runner) {
	t.Helper()
	bubble(t, func(t *testing.T, ctx context.Context) {
		t.Helper()
		op := &attempts{errs: []error{errDown}}
		err := job(ctx, op.run)
		check(t, errors.Is(err, errDown) && len(op.times) == 3, "%d attempts, %v", len(op.times), err)
	})
}
