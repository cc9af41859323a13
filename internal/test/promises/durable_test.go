package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// T-67.
func TestNextIsNeverInThePast(t *testing.T) {
	t.Parallel()
	nows := []time.Time{
		{},
		time.Unix(0, 0), time.Unix(1_700_000_000, 999_999_999), time.Now(),
		time.Unix(1<<40, 0), time.Unix(1<<62, 0), time.Unix(math.MaxInt64-62135596800, 999_999_999),
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	backoffs := []retry.Backoff{
		nil, retry.Constant(0), retry.Constant(math.MaxInt64),
		retry.Schedule{math.MaxInt64, 1},
		retry.Exponential{Initial: math.MaxInt64},
		retry.Exponential{Initial: time.Hour, Multiplier: 1e300},
		retry.Linear{Initial: math.MaxInt64, Step: math.MaxInt64},
		retry.Fibonacci{Initial: 1 << 61},
		peerBackoff(math.MinInt64), peerBackoff(-1),
	}
	hints := []time.Duration{0, math.MinInt64, 1, time.Minute, math.MaxInt64}
	for _, b := range backoffs {
		t.Run(fmt.Sprintf("%T %v", b, b), func(t *testing.T) {
			t.Parallel()
			for _, now := range nows {
				for _, hint := range hints {
					for _, n := range peerCounts {
						p := retry.Policy{
							MaxAttempts:   retry.Unlimited,
							Backoff:       b,
							MaxDelay:      math.MaxInt64,
							MaxRetryAfter: math.MaxInt64,
							Rand:          ^constantWord(0),
						}
						s := retry.State{Failures: n, RateLimited: n}
						d := p.Decide(s, retry.Verdict{Class: retry.Retryable, After: hint}, now)
						if !d.Retry {
							if d.Stop == retry.StopBackoff {
								require.Negative(t, b.Delay(n+1))
								continue
							}
							// Only the count itself may come to its end.
							require.GreaterOrEqual(t, n, math.MaxInt-1, "no retry: %+v", d)
							require.Equal(t, retry.StopAttempts, d.Stop)
							continue
						}
						if d.Delay < 0 || d.At.Before(now.Round(0)) {
							require.Fail(t, "in the past", "%v + %v = %v", now, d.Delay, d.At)
						}
						if d.State.Failures < 0 || n >= 0 && d.State.RateLimited < 0 {
							require.Fail(t, "the count wrapped", "%+v", d.State)
						}
						if d.Delay < max(hint, 0) {
							require.Fail(t, "before the hint", "%v < %v", d.Delay, hint)
						}
					}
				}
			}
		})
	}
	t.Run("clocks that jump", func(t *testing.T) {
		t.Parallel()
		now := time.Unix(1_700_000_000, 0)
		p := retry.Policy{MaxElapsed: time.Hour}
		for _, first := range []time.Time{now.Add(time.Minute), now.AddDate(1000, 0, 0), time.Unix(1<<62, 0)} {
			d := p.Next(retry.State{First: first}, testkit.ErrPeer, now)
			assert.True(t, d.Retry, "before the first attempt, no time has passed")
			assert.False(t, d.At.Before(now))
		}
		for _, first := range []time.Time{now.AddDate(-1000, 0, 0), time.Unix(-1<<60, 0)} {
			d := p.Next(retry.State{First: first}, testkit.ErrPeer, now)
			assert.Equal(t, retry.StopElapsed, d.Stop)
		}
	})
}

// T-68.
func TestDecisionsArePure(t *testing.T) {
	t.Parallel()
	t.Run("nothing but the arguments counts", func(t *testing.T) {
		t.Parallel()
		p := retry.Policy{
			MaxAttempts:    5,
			MaxElapsed:     time.Hour,
			FreeRateLimits: 2,
			Overrides:      map[string]retry.Override{"unknown": {MaxAttempts: 4, Jitter: retry.EqualJitter}},
		}
		text, err := json.Marshal(p)
		require.NoError(t, err)
		var stored retry.Policy
		require.NoError(t, json.Unmarshal(text, &stored))
		stored.Clock = peerNoClock{}

		monotonic := time.Now()
		errs := []error{testkit.ErrPeer, retry.MarkRetryable(testkit.ErrPeer), retry.MarkRateLimited(testkit.ErrPeer, time.Minute), retry.MarkFinal(testkit.ErrPeer)}
		for _, opErr := range errs {
			for failures := range 6 {
				s := retry.State{Failures: failures, RateLimited: failures % 3, First: monotonic.Add(-time.Duration(failures) * time.Minute), Key: "job-1"}
				want := p.Next(s, opErr, monotonic)

				wall := monotonic.Round(0).UTC()
				column, err := json.Marshal(s)
				require.NoError(t, err)
				row := retry.State{Key: "job-1"}
				require.NoError(t, json.Unmarshal(column, &row))
				header, err := s.MarshalText()
				require.NoError(t, err)
				fromHeader := retry.State{Key: "job-1"}
				require.NoError(t, fromHeader.UnmarshalText(header))

				for i, got := range []retry.Decision{
					p.Next(s, opErr, monotonic), stored.Next(s, opErr, wall), stored.Next(row, opErr, wall), p.Next(fromHeader, opErr, wall),
				} {
					assert.True(t, want.At.Equal(got.At), i)
					assert.True(t, want.State.First.Equal(got.State.First), i)
					if e, ok := got.Err.(*retry.Error); ok {
						assert.True(t, want.State.First.Equal(e.State.First), i)
						e.State.First = want.State.First
					}
					assert.Equal(t, want.Err, got.Err, i)
					got.At, got.State.First = want.At, want.State.First
					assert.Equal(t, want, got, i)
				}
			}
		}
	})
	t.Run("a snooze costs no attempt", func(t *testing.T) {
		t.Parallel()
		p := retry.Policy{MaxAttempts: 3, FreeRateLimits: 100, Jitter: retry.NoJitter}
		limited := retry.MarkRateLimited(testkit.ErrPeer, time.Minute)
		now := time.Unix(1_700_000_000, 0)
		s := retry.State{Failures: 1}
		for n := 1; n <= 100; n++ {
			d := p.Next(s, limited, now)
			require.True(t, d.Retry)
			assert.False(t, d.Counted)
			assert.Equal(t, retry.State{Failures: 1, RateLimited: n}, d.State)
			s, now = d.State, d.At
		}
		// The schedule goes on where it was, and then the free ones are spent.
		d := p.Next(s, testkit.ErrPeer, now)
		assert.Equal(t, 4*time.Second, d.Delay)
		d = p.Next(s, limited, now)
		assert.True(t, d.Counted)
		assert.Equal(t, 2, d.State.Failures)
		d = p.Next(d.State, limited, now)
		assert.Equal(t, retry.StopAttempts, d.Stop)
		assert.Equal(t, 103, d.Err.(*retry.Error).Attempts)
	})
	t.Run("the loop decides alike", func(t *testing.T) {
		t.Parallel()
		script := []error{
			testkit.ErrPeer, retry.MarkRateLimited(testkit.ErrPeer, 3*time.Second), retry.MarkRetryable(testkit.ErrPeer),
			retry.MarkRateLimited(testkit.ErrPeer, 5*time.Second), testkit.ErrPeer, testkit.ErrPeer,
		}
		synctest.Test(t, func(t *testing.T) {
			p := &retry.Policy{MaxAttempts: 4, FreeRateLimits: 1, Jitter: retry.NoJitter, Rand: constantWord(1 << 63)}
			start, at := time.Now(), []time.Time{}
			err := p.Execute(t.Context(), func(context.Context) error {
				at = append(at, time.Now())
				return script[len(at)-1]
			})
			now, s := start, retry.State{} // no First, which this policy does not ask for
			for i, opErr := range script {
				assert.True(t, at[i].Equal(now), "attempt %d", i+1)
				d := p.Next(s, opErr, now)
				if !d.Retry {
					require.Len(t, at, i+1)
					e := testkit.As[*retry.Error](t, err)
					e.Waited = 0 // which a stored job does not know
					assert.Equal(t, d.Err, err)
					return
				}
				s, now = d.State, d.At
			}
			assert.Fail(t, "the script is too short")
		})
	})
}

// T-14.
func TestSharedPolicy(t *testing.T) {
	t.Parallel()
	backoffs := []retry.Backoff{
		nil,
		retry.Exponential{Initial: 1},
		retry.Linear{Initial: 1},
		retry.Fibonacci{Initial: 1},
		retry.Constant(1),
		retry.Schedule{1, 2, 3},
	}
	for _, b := range backoffs {
		t.Run(fmt.Sprint(b), func(t *testing.T) {
			t.Parallel()
			const attempts = 6
			p := retry.Policy{
				Name:           "shared",
				MaxAttempts:    attempts,
				MaxElapsed:     time.Hour,
				AttemptTimeout: time.Hour,
				Backoff:        b,
				MaxDelay:       time.Microsecond,
				FreeRateLimits: 1,
				Classifier:     retry.Chain(retry.On(retry.Retryable, testkit.ErrPeer), retry.ThroughGiveUp),
				Overrides:      map[string]retry.Override{"retryable": {Jitter: retry.EqualJitter}},
				Budget:         &retry.Budget{Reserve: math.MaxInt32},
				Observer:       retry.Observers(retry.ObserverFunc(func(context.Context, retry.Event) {})),
			}
			before := fmt.Sprintf("%#v", []any{p.MaxAttempts, p.Backoff, p.Overrides, p.Jitter, p.String()})
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					for use := range 3 { // as many attempts every time
						own := fmt.Errorf("caller %d: %w", i, testkit.ErrPeer)
						want := (i+use)%(attempts+2) + 1 // the attempt that succeeds
						calls := 0
						got, err := retry.Do(t.Context(), &p, func(context.Context) (int, error) {
							calls++
							if calls == want {
								return i, nil
							}
							return -calls, own
						})
						_ = p.Next(retry.State{Failures: use}, own, time.Unix(0, 0))
						_, _ = p.Bounds(i)
						_ = p.String()
						if want <= attempts {
							assert.NoError(t, err)
							assert.Equal(t, want, calls)
							assert.Equal(t, i, got)
							continue
						}
						var e *retry.Error
						if assert.ErrorAs(t, err, &e) {
							assert.Equal(t, attempts, e.Attempts)
							assert.Equal(t, own, e.Err, "the error of another caller")
						}
						assert.Equal(t, attempts, calls)
					}
				})
			}
			wg.Wait()
			after := fmt.Sprintf("%#v", []any{p.MaxAttempts, p.Backoff, p.Overrides, p.Jitter, p.String()})
			assert.Equal(t, before, after, "the policy was written to")
		})
	}
}

// T-26: Not parallel, because allocations are counted for the whole process.
func TestContextPerCall(t *testing.T) { //nolint:paralleltest // see above
	p := &retry.Policy{MaxAttempts: 5}
	live, cancelLive := context.WithCancel(t.Context())
	defer cancelLive()
	var contexts []context.Context
	for i := range 100 {
		contexts = append(contexts, context.WithValue(live, testkit.Key{}, i))
	}
	n, wrong := 0, 0
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		n++
		ctx := contexts[n%len(contexts)]
		_ = p.Execute(ctx, func(got context.Context) error {
			if got != ctx {
				wrong++
			}
			return nil
		})
		_, _ = retry.Do(ctx, p, func(got context.Context) (int, error) {
			if got != ctx {
				wrong++
			}
			return n, nil
		})
	}))
	assert.Zero(t, wrong, "calls with another context")

	// The end of one call's context is not that of the next.
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		assert.ErrorIs(t, p.Execute(dead, func(context.Context) error { return nil }), context.Canceled)
		assert.NoError(t, p.Execute(t.Context(), func(context.Context) error { return nil }))
	}
}

// T-50: Not parallel, because allocations are counted for the whole process.
func TestSuccessDoesNotAllocate(t *testing.T) { //nolint:paralleltest // see above
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	policies := map[string]*retry.Policy{
		"nil":        nil,
		"zero":       {},
		"unlimited":  {MaxAttempts: retry.Unlimited},
		"budget":     {Budget: &retry.Budget{}},
		"elapsed":    {MaxElapsed: time.Hour},
		"classifier": {Classifier: retry.On(retry.Final, testkit.ErrPeer)},
		"overrides":  {Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 1}}},
		"observer":   {Observer: retry.ObserverFunc(func(context.Context, retry.Event) {})},
	}
	for name, p := range policies { //nolint:paralleltest // see above
		t.Run(name, func(t *testing.T) {
			calls := 0
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				_ = p.Execute(ctx, func(context.Context) error {
					calls++
					return nil
				})
			}), "Execute")
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				v, _ := retry.Do(ctx, p, func(context.Context) ([4]int, error) {
					calls++
					return [4]int{calls}, nil
				})
				calls = v[0]
			}), "Do")
			assert.Equal(t, 202, calls)
		})
	}
}

// peerLookalikes are texts that other libraries take for something.
var peerLookalikes = []string{
	"connection reset by peer", "read tcp 10.0.0.1:1->10.0.0.2:2: read: connection reset by peer",
	"dial tcp: connect: connection refused", "write: broken pipe", "i/o timeout", "net/http: TLS handshake timeout",
	"context deadline exceeded", "context canceled", "EOF", "unexpected EOF", "use of closed network connection",
	"x509: certificate signed by unknown authority", "tls: failed to verify certificate", "no such host",
	"stopped after 10 redirects", "unsupported protocol scheme", "invalid header field", "server misbehaving",
	"429 Too Many Requests", "503 Service Unavailable", "Retry-After: 120", "retry after 5s", "rate limit exceeded", "slow down",
	"Throttling", "ThrottlingException: Rate exceeded", "RequestTimeout", "ProvisionedThroughputExceededException",
	"rpc error: code = Unavailable desc = try again", "RESOURCE_EXHAUSTED", "permanent", "retryable", "temporary failure",
	"pq: deadlock detected", "40001", "database is locked", "exit status 75", "timeout", "try again", "not found",
	"final", "gave_up", "unknown", "retry: attempts exhausted", "retry: worker lost", "permission denied", "",
}

// T-58.
func TestTextIsNotRead(t *testing.T) {
	t.Parallel()
	t.Run("look-alikes", func(t *testing.T) {
		t.Parallel()
		for _, text := range peerLookalikes {
			err := errors.New(text)
			for _, err := range []error{err, fmt.Errorf("call: %w", err), errors.Join(err, err), fmt.Errorf("%w, %w", err, testkit.ErrPeer)} {
				assert.Zero(t, retry.Classify(err), "%q", err)
				assert.Zero(t, retry.ThroughGiveUp(err), "%q", err)
				assert.Zero(t, retry.On(retry.Final, retry.ErrLost, context.Canceled, errors.New(text))(err), "%q", err)
				d := new(retry.Policy).Next(retry.State{}, err, time.Unix(0, 0))
				assert.True(t, d.Retry, "%q", err)
				assert.Zero(t, d.Verdict, "%q", err)
			}
		}
	})
	t.Run("sources", func(t *testing.T) {
		t.Parallel()
		for src, want := range map[string]int{
			`if strings.Contains(err.Error(), "reset") {}`:   1,
			`text := strings.ToLower(err.Error()); _ = text`: 1,
			`switch err.Error() { case "EOF": }`:             1,
			`_ = err.Error() == "EOF"`:                       1,
			`_ = fmt.Sprint(err)`:                            0,
			`_ = m["x"].Error(1)`:                            0,
		} {
			require.Len(t, textReaders(t, "x.go", []byte("package p\nfunc f(err error) {\n"+src+"\n}")), want, src)
		}

		names, err := fs.Glob(repository, "*.go")
		require.NoError(t, err)
		tables, err := fs.Glob(repository, "internal/known/*.go")
		require.NoError(t, err)
		names = append(names, tables...)
		files := 0
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files++
			src, err := fs.ReadFile(repository, name)
			require.NoError(t, err)
			assert.Empty(t, textReaders(t, name, src), "an error's text is looked at")
		}
		assert.Greater(t, files, 10)
	})
}

// textReaders returns where a source file calls an Error method other than
// to make the text of another error, and whether it imports regexp, whose only
// use would be to match one.
func textReaders(t *testing.T, name string, src []byte) (found []string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, 0)
	require.NoError(t, err)
	for _, spec := range file.Imports {
		if spec.Path.Value == `"regexp"` {
			found = append(found, name+": imports regexp")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok && name == "errors.go" && fn.Recv != nil && fn.Type.Results != nil {
			// The methods of Error that build its text.
			result, ok := fn.Type.Results.List[0].Type.(*ast.Ident)
			return !ok || result.Name != "string"
		}
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 0 {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Error" {
				found = append(found, fset.Position(call.Pos()).String())
			}
		}
		return true
	})
	return found
}
