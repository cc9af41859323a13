package retryconnect_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

const (
	procedure = "/retryconnect.test.Jobs/Get"
	attempts  = 3
)

type text = wrapperspb.StringValue

// server is a real one on loopback.
type server struct {
	*httptest.Server

	quiet bool // calls are counted only, because more allocates

	mu       sync.Mutex
	calls    int
	previous []string // the header Grpc-Previous-Rpc-Attempts of each call
	callers  []string // a header of the caller's
}

// began notes a call, and returns its number.
func (s *server) began(header http.Header) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; !s.quiet {
		s.previous = append(s.previous, header.Get("Grpc-Previous-Rpc-Attempts"))
		s.callers = append(s.callers, header.Get("Caller"))
	}
	return s.calls
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *server) start(t *testing.T, handlers map[string]http.Handler) *server {
	t.Helper()
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.Handle(path, handler)
	}
	s.Server = httptest.NewUnstartedServer(mux)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// serve starts a server with a procedure.
func serve(t *testing.T, fn func(ctx context.Context, call int) error, opts ...connect.HandlerOption) *server {
	t.Helper()
	s := &server{}
	return s.start(t, map[string]http.Handler{
		procedure: connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
			if err := fn(ctx, s.began(req.Header())); err != nil {
				return nil, err
			}
			return connect.NewResponse(wrapperspb.String(req.Msg.GetValue())), nil
		}, opts...),
	})
}

// protocols are the three that connect speaks.
var protocols = map[string][]connect.ClientOption{
	"connect":  nil,
	"grpc":     {connect.WithGRPC()},
	"grpc-web": {connect.WithGRPCWeb()},
}

// client returns a client of a procedure of a level, over HTTP/2 as gRPC needs it.
func client(t *testing.T, url string, i connect.Interceptor, level connect.IdempotencyLevel, opts ...connect.ClientOption) *connect.Client[text, text] {
	t.Helper()
	transport := provoke.Transport(t, &http.Transport{Protocols: new(http.Protocols)})
	transport.Protocols.SetUnencryptedHTTP2(true)
	return connect.NewClient[text, text](&http.Client{Transport: transport}, url,
		append(slices.Clip(opts), connect.WithInterceptors(i), connect.WithIdempotency(level))...)
}

func request() *connect.Request[text] { return connect.NewRequest(wrapperspb.String("job")) }

// call makes a call of the procedure.
func call(
	ctx context.Context, t *testing.T, url string, i connect.Interceptor, level connect.IdempotencyLevel, opts ...connect.ClientOption,
) (string, error) {
	t.Helper()
	resp, err := client(t, url+procedure, i, level, opts...).CallUnary(ctx, request())
	if err != nil {
		return "", err
	}
	return resp.Msg.GetValue(), nil
}

// unavailable fails each call.
func unavailable(context.Context, int) error {
	return connect.NewError(connect.CodeUnavailable, errors.New("no"))
}

func retrying(n int) (*retryconnect.Interceptor, *retrytest.Recorder) {
	r := &retrytest.Recorder{}
	return &retryconnect.Interceptor{Policy: &retry.Policy{
		MaxAttempts: n, Jitter: retry.NoJitter, Clock: &retrytest.Clock{}, Observer: r.Observer(), Rand: retrytest.NewRand(0),
	}}, r
}

// retried says which failures are retried: of an idempotent procedure, and of another one.
type retried struct{ plain, hinted, after [2]bool }

var (
	idem   = [2]bool{true, false}
	always = [2]bool{true, true}
)

// codesTable has the codes that are retried in some case.
var codesTable = map[connect.Code]retried{
	connect.CodeUnavailable:       {plain: idem, hinted: always, after: idem},
	connect.CodeDeadlineExceeded:  {plain: idem, hinted: idem, after: idem},
	connect.CodeResourceExhausted: {plain: idem, hinted: always, after: always},
}

// TestCodes fails calls over the wire with every code, in every protocol.
func TestCodes(t *testing.T) {
	t.Parallel()
	info := testkit.Must(connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)}))(t)
	for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
		want := codesTable[code]
		for _, tt := range []struct {
			name   string
			change func(*connect.Error)
			want   [2]bool
			wait   time.Duration // at least
			exact  bool
		}{
			{"plain", func(*connect.Error) {}, want.plain, 0, false},
			{"RetryInfo", func(e *connect.Error) { e.AddDetail(info) }, want.hinted, 1500 * time.Millisecond, false},
			{"Retry-After", func(e *connect.Error) { e.Meta().Set("Retry-After", "2") }, want.after, 2 * time.Second, false},
			{"pushback", func(e *connect.Error) { e.Meta().Set("grpc-retry-pushback-ms", "250") }, want.hinted, 250 * time.Millisecond, true},
			{"pushback -1", func(e *connect.Error) { e.Meta().Set("grpc-retry-pushback-ms", "-1") }, [2]bool{}, 0, false},
			{"pushback that is no number", func(e *connect.Error) { e.Meta().Set("grpc-retry-pushback-ms", "x") }, [2]bool{}, 0, false},
		} {
			for protocol, opts := range protocols {
				for n, level := range []connect.IdempotencyLevel{connect.IdempotencyNoSideEffects, connect.IdempotencyUnknown} {
					t.Run(fmt.Sprintf("%v, %s, %s, %v", code, tt.name, protocol, level), func(t *testing.T) {
						t.Parallel()
						s := serve(t, func(context.Context, int) error {
							e := connect.NewError(code, errors.New("no"))
							tt.change(e)
							return e
						}, connect.WithIdempotency(level))
						retries, recorder := retrying(attempts)
						_, err := call(t.Context(), t, s.URL, retries, level, opts...)
						assert.Equal(t, code, connect.CodeOf(err))
						if !tt.want[n] {
							assert.Equal(t, 1, s.count(), recorder.Timeline())
							return
						}
						assert.Equal(t, attempts, s.count(), recorder.Timeline())
						for _, wait := range recorder.Waits() {
							assert.GreaterOrEqual(t, wait, tt.wait)
							assert.True(t, !tt.exact || wait == tt.wait)
						}
					})
				}
			}
		}
	}
}

func TestSuccess(t *testing.T) {
	t.Parallel()
	for protocol, opts := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(_ context.Context, call int) error {
				if call < 3 {
					return connect.NewError(connect.CodeUnavailable, errors.New("no"))
				}
				return nil
			})
			retries, recorder := retrying(5)
			out := testkit.Must(call(t.Context(), t, s.URL, retries, connect.IdempotencyIdempotent, opts...))(t)
			assert.Equal(t, "job", out)
			assert.Equal(t, []string{"", "1", "2"}, s.previous)
			recorder.ExpectWaits(t, 200*time.Millisecond, 400*time.Millisecond)
		})
	}
}

// refused is a URL where nobody listens. That of a server that was closed may soon be
// another test's.
const refused = "http://127.0.0.1:1"

// TestUnsent has a server that is not there.
func TestUnsent(t *testing.T) {
	t.Parallel()
	retries, recorder := retrying(attempts)
	_, err := call(t.Context(), t, refused, retries, connect.IdempotencyUnknown)
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Len(t, recorder.Waits(), attempts-1)
}

func TestIdempotent(t *testing.T) {
	t.Parallel()
	s := serve(t, unavailable)
	retries, _ := retrying(attempts)
	retries.Idempotent = func(name string) bool { return name == procedure }
	_, err := call(t.Context(), t, s.URL, retries, connect.IdempotencyUnknown)
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Equal(t, attempts, s.count())
}

// TestBudget has a server that only fails.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := serve(t, unavailable)
	retries, _ := retrying(2)
	for range 20 {
		_, err := call(t.Context(), t, s.URL, retries, connect.IdempotencyIdempotent)
		require.Error(t, err)
	}
	assert.Equal(t, 20+3, s.count())
}

// TestContexts has the codes of calls that their callers have ended.
func TestContexts(t *testing.T) {
	t.Parallel()
	s := serve(t, unavailable)
	ctx, cancel := context.WithCancel(t.Context())
	retries := &retryconnect.Interceptor{Policy: &retry.Policy{
		Backoff:  retry.Constant(time.Hour),
		Observer: &retry.Observer{Event: func(context.Context, retry.Event) { cancel() }},
	}}
	for range 2 { // during a wait, and before
		_, err := call(ctx, t, s.URL, retries, connect.IdempotencyIdempotent)
		assert.Equal(t, connect.CodeCanceled, connect.CodeOf(err))
		require.ErrorIs(t, err, context.Canceled)
	}
	passed, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := call(passed, t, s.URL, retries, connect.IdempotencyIdempotent)
	assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err))
	ahead, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = call(ahead, t, s.URL, retries, connect.IdempotencyIdempotent)
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "the wait would be too long: the reason is the server's")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestAttemptTimeout has a server that does not answer the first call in time.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	s := serve(t, func(ctx context.Context, call int) error {
		if call == 1 {
			<-ctx.Done()
		}
		return ctx.Err()
	})
	retries := &retryconnect.Interceptor{Policy: &retry.Policy{AttemptTimeout: 2 * time.Second, Backoff: retry.Constant(0)}}
	testkit.Must(call(t.Context(), t, s.URL, retries, connect.IdempotencyIdempotent))(t)
	assert.Equal(t, 2, s.count())
}

// TestHandler has the Interceptor on the wrong side, where it does nothing.
func TestHandler(t *testing.T) {
	t.Parallel()
	retries, recorder := retrying(attempts)
	s := serve(t, unavailable,
		connect.WithInterceptors(retries))
	once, _ := retrying(1)
	_, err := call(t.Context(), t, s.URL, once, connect.IdempotencyIdempotent)
	require.Error(t, err)
	assert.Equal(t, 1, s.count())
	assert.Empty(t, recorder.Events())
}

func TestClassify(t *testing.T) {
	t.Parallel()
	assert.Equal(t, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "connect_aborted"},
		retryconnect.Classify(connect.NewError(connect.CodeAborted, errors.New("conflict"))))
	assert.Equal(t, "connect_other", retryconnect.Classify(connect.NewError(1000, nil)).Category)
	assert.Zero(t, retryconnect.Classify(nil))
}

// TestRootKnowsCodes checks that retry.Classify, which does not import Connect, gives all codes the
// class that this package gives them, but for two that may stand for a broken connection and for
// those that Connect does not know. Which errors a server has made is known here alone, and so is
// that nothing was applied.
func TestRootKnowsCodes(t *testing.T) {
	t.Parallel()
	info := testkit.Must(connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}))(t)
	for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated+2; code++ {
		for _, hinted := range []bool{false, true} {
			e := connect.NewError(code, errors.New("y"))
			if hinted {
				e.AddDetail(info)
			}
			want, got := retryconnect.Classify(e), retry.Classify(fmt.Errorf("x: %w", e))
			if code == connect.CodeUnknown || code == connect.CodeInternal || code > connect.CodeUnauthenticated {
				want.Class, want.After = retry.Unknown, 0
			}
			if want.Class == retry.Final {
				want.After = 0
			}
			assert.Equal(t, want.Class, got.Class, "%v %v", code, hinted)
			assert.Equal(t, want.After, got.After, "%v %v", code, hinted)
		}
	}
	assert.Equal(t, "grpc_not_found", retry.Classify(connect.NewError(connect.CodeNotFound, nil)).Category)
	for _, classify := range []retry.Classifier{retryconnect.Classify, retry.Classify} {
		e := connect.NewError(connect.CodeResourceExhausted, errors.New("message size 9 is larger than configured max 8"))
		assert.Equal(t, retry.Final, classify(e).Class)
	}
}

// TestReserve: a new server has as many retries as one call may make, three to ten.
func TestReserve(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{8: 8, retry.Unlimited: 11} {
		s := serve(t, unavailable)
		i, _ := retrying(n)
		_, err := call(t.Context(), t, s.URL, i, connect.IdempotencyIdempotent)
		require.Error(t, err)
		assert.Equal(t, want, s.count())
	}
}

// TestPolicyWithoutBackoff checks which settings a Policy gets from DefaultPolicy.
func TestPolicyWithoutBackoff(t *testing.T) {
	t.Parallel()
	s := serve(t, unavailable)
	testkit.TakesDefaults(t, func(t *testing.T, p *retry.Policy) {
		t.Helper()
		_, err := call(t.Context(), t, s.URL, &retryconnect.Interceptor{Policy: p}, connect.IdempotencyIdempotent)
		require.ErrorIs(t, err, retry.StopAttempts)
	})
}

// A RetryInfo that one call gets holds all calls with the Quota, in every protocol. None of them
// is sent before, and a call without time for that is told at once.
func TestQuota(t *testing.T) {
	t.Parallel()
	info := testkit.Must(connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(30 * time.Second)}))(t)
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &retrytest.Clock{}
			start := clock.Now()
			var mu sync.Mutex
			var came []time.Duration
			s := serve(t, func(_ context.Context, n int) error {
				mu.Lock()
				defer mu.Unlock()
				if came = append(came, clock.Now().Sub(start)); n > 1 {
					return nil
				}
				exhausted := connect.NewError(connect.CodeResourceExhausted, nil)
				exhausted.AddDetail(info)
				return exhausted
			})
			quota := &retryquota.Quota{}
			get := func(p retry.Policy) error {
				p.Clock, p.Jitter = clock, retry.NoJitter
				i := &retryconnect.Interceptor{Policy: &p, QuotaFor: func(context.Context) retry.Pacer { return quota }}
				_, err := call(t.Context(), t, s.URL, i, connect.IdempotencyUnknown, protocol...)
				return err
			}

			assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(get(retry.Policy{MaxAttempts: 1})))
			gaveUp := testkit.As[*retry.Error](t, get(retry.Policy{Timeout: 10 * time.Second}))
			assert.Equal(t, retry.StopTimeout, gaveUp.Stop)
			assert.Equal(t, 30*time.Second, gaveUp.RetryAfter)
			assert.Equal(t, []time.Duration{0}, came)

			require.NoError(t, get(retry.Policy{}))
			require.NoError(t, get(retry.Policy{}))
			assert.Equal(t, 30*time.Second, came[1])
			assert.Equal(t, 30*time.Second, came[2], "the first has come back")
		})
	}
}

// refusal is an error of a server with details.
func refusal(t *testing.T, waits ...time.Duration) *connect.Error {
	t.Helper()
	e := connect.NewWireError(connect.CodeUnavailable, errors.New("no"))
	for _, d := range waits {
		detail := testkit.Must(connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)}))(t)
		e.AddDetail(detail)
	}
	return e
}

// A server can send millions of details. The first hundred are read.
func TestManyDetails(t *testing.T) {
	t.Parallel()
	most := slices.Repeat([]time.Duration{time.Second}, 99)
	assert.Equal(t, time.Minute, retryconnect.Classify(refusal(t, append(most, time.Minute)...)).After)
	assert.Equal(t, time.Second, retryconnect.Classify(refusal(t, append(most, time.Second, time.Minute)...)).After)
}

// A refusal is what its ErrorInfo says.
func TestReasons(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code   connect.Code
		reason string
		want   retry.Verdict
	}{
		{connect.CodeResourceExhausted, "RATE_LIMIT_EXCEEDED", retry.Verdict{Class: retry.RateLimited, NotApplied: true, Category: "connect_resource_exhausted"}},
		{connect.CodePermissionDenied, "RATE_LIMIT_EXCEEDED", retry.Verdict{Class: retry.RateLimited, NotApplied: true, Category: "connect_permission_denied"}},
		{connect.CodePermissionDenied, "IAM_PERMISSION_DENIED", retry.Verdict{Class: retry.Final, Category: "connect_permission_denied"}},
		{connect.CodeResourceExhausted, "QUOTA_EXHAUSTED", retry.Verdict{Class: retry.Final, Category: "quota_exhausted"}},
	} {
		e := connect.NewWireError(tt.code, errors.New("no"))
		e.AddDetail(testkit.Must(connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: tt.reason}))(t))
		assert.Equal(t, tt.want, retryconnect.Classify(e), tt)
	}
}

// What a server sends makes no work that grows faster than what it has sent.
//
//nolint:paralleltest // It measures.
func TestWorkGrowsNoFasterThanTheInput(t *testing.T) {
	with := func(h http.Header) *connect.Error {
		e := refusal(t)
		maps.Copy(e.Meta(), h)
		return e
	}
	for name, build := range map[string]func(n int) *connect.Error{
		"hints": func(n int) *connect.Error { return refusal(t, slices.Repeat([]time.Duration{1}, n/50)...) },
		"headers": func(n int) *connect.Error {
			return with(http.Header{"Date": {strings.Repeat("x", n/2)}, "Retry-After": {strings.Repeat("2000000000,", n/22) + "1"}})
		},
		"lines": func(n int) *connect.Error {
			return with(http.Header{"Ratelimit": slices.Repeat([]string{`"a";r=0;t=1`}, n/12)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.GrowsLikeTheInput(t, func(e *connect.Error) { _ = retryconnect.Classify(e) }, build)
		})
	}
}
