package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// failing answers the first calls with UNAVAILABLE, and then with the request.
func failing(calls int) *server {
	return &server{unary: func(_ context.Context, call int, in string) (string, error) {
		if call <= calls {
			return "", status.Error(codes.Unavailable, "no")
		}
		return in, nil
	}}
}

// TestRetries has a server that fails twice. It is told of the attempts before, and the metadata
// that the caller asks for are of the last one.
func TestRetries(t *testing.T) {
	t.Parallel()
	s := (&server{unary: func(ctx context.Context, call int, in string) (string, error) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("call", strconv.Itoa(call)))
		if call <= 2 {
			return "", status.Error(codes.Unavailable, "no")
		}
		return in, nil
	}}).start(t)
	retries, recorder := retrying(5)
	var trailer metadata.MD
	out := testkit.Must(call(t.Context(), dial(t, s.address, retries.DialOptions()...), get, "job", grpc.Trailer(&trailer)))(t)
	assert.Equal(t, "job", out)
	assert.Equal(t, []string{"3"}, trailer["call"])
	assert.Equal(t, [][]string{nil, {"1"}, {"2"}}, s.previous)
	recorder.ExpectWaits(t, 200*time.Millisecond, 400*time.Millisecond)
}

// TestWhich has the three ways in which a method is known to be idempotent.
func TestWhich(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method string
		idempotent   func(string) bool
		want         int // attempts
	}{
		{"no side effects", get, nil, attempts},
		{"idempotent", remove, nil, attempts},
		{"says nothing", submit, nil, 1},
		{"listed", submit, retrygrpc.Methods(submit), attempts},
		{"listed without slash", submit, retrygrpc.Methods(submit[1:]), attempts},
		{"service listed", submit, retrygrpc.Methods("/retrygrpc.test.Jobs/*"), attempts},
		{"another service listed", submit, retrygrpc.Methods("/retrygrpc.test.Job/*", "/retrygrpc.test.Jobs/Sub"), 1},
		{"function", submit, func(method string) bool { return method == submit }, attempts},
		{"function that knows others", get, func(string) bool { return false }, attempts},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := failing(10).start(t)
			retries, _ := retrying(attempts)
			retries.Idempotent = tt.idempotent
			_, err := call(t.Context(), dial(t, s.address, retries.DialOptions()...), tt.method, "")
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.Equal(t, tt.want, s.count())
			assert.Equal(t, tt.want == 1, errors.Is(err, retry.StopMaybeApplied))
		})
	}
}

// TestServiceConfig counts requests: the retries of grpc and ours do not multiply.
func TestServiceConfig(t *testing.T) {
	t.Parallel()
	config := grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4,
		"initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`)
	both := func(i *retrygrpc.Interceptor) []grpc.DialOption {
		return []grpc.DialOption{grpc.WithUnaryInterceptor(i.Unary), grpc.WithStreamInterceptor(i.Stream)}
	}
	for name, tt := range map[string]struct {
		opts func(*retrygrpc.Interceptor) []grpc.DialOption
		also []grpc.DialOption
		want int
	}{
		"DialOptions":                            {(*retrygrpc.Interceptor).DialOptions, []grpc.DialOption{config}, attempts},
		"Unary and Stream":                       {both, []grpc.DialOption{config}, 4},
		"Unary and Stream without a retryPolicy": {both, nil, attempts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := failing(100)
			s.stream = echo(100, 0, codes.Unavailable) // having read the request, because grpc may fail to send it otherwise
			s.start(t)
			retries, _ := retrying(attempts)
			conn := dial(t, s.address, append(tt.opts(retries), tt.also...)...)
			_, err := call(t.Context(), conn, get, "")
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.Equal(t, tt.want, s.count())

			stream := testkit.Must(watching(t.Context(), conn, watch, ""))(t)
			_, err = receive(stream)
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.Equal(t, 2*tt.want, s.count())
		})
	}
}

// refused is an address where nobody listens. That of a listener that was closed may soon be
// another test's.
const refused = "127.0.0.1:1"

// TestUnsent has a method that must not be repeated and a server that is not there.
func TestUnsent(t *testing.T) {
	t.Parallel()
	retries, recorder := retrying(attempts)
	conn := dial(t, refused, retries.DialOptions()...)
	_, err := call(t.Context(), conn, submit, "")
	assert.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Len(t, recorder.Waits(), attempts-1)

	_, err = conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, talk)
	require.ErrorIs(t, err, retry.StopAttempts)
	_, err = watching(t.Context(), conn, follow, "")
	require.ErrorIs(t, err, retry.StopAttempts)
}

// TestUnsentUnproved has an interceptor that drops the options: what grpc does not tell is
// not known.
func TestUnsentUnproved(t *testing.T) {
	t.Parallel()
	retries, _ := retrying(attempts)
	drops := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		return invoker(ctx, method, req, reply, cc)
	}
	conn := dial(t, refused, append(retries.DialOptions(), grpc.WithChainUnaryInterceptor(drops))...)
	_, err := call(t.Context(), conn, submit, "")
	require.ErrorIs(t, err, retry.StopMaybeApplied)
}

// TestUnprovedBehind has interceptors behind ours that have an error of their own for what
// the server has done, or make the call twice: none of these errors is about the call alone.
func TestUnprovedBehind(t *testing.T) {
	t.Parallel()
	limited := testkit.Must(status.New(codes.Unavailable, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(1)}))(t)
	dialed := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	type invoke = func() error
	for _, tt := range []struct {
		name  string
		make  func(invoke) error
		calls int
	}{
		{"a report that could not be sent", func(call invoke) error { _ = call(); return dialed }, 1},
		{"a report beside the status", func(call invoke) error { return errors.Join(call(), dialed) }, 1},
		{"a report around the status", func(call invoke) error { return fmt.Errorf("%w: %w", call(), dialed) }, 1},
		{"another call that was refused", func(call invoke) error { _ = call(); return limited.Err() }, 1},
		{"a second try that was refused", func(call invoke) error { _ = call(); return call() }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&server{}).start(t)
			s.unary = func(_ context.Context, call int, in string) (string, error) {
				switch {
				case tt.name == "another call that was refused":
					return in, nil
				case tt.calls == 2 && call == 2:
					return "", limited.Err()
				default:
					return "", status.Error(codes.Unavailable, "no")
				}
			}
			retries, recorder := retrying(attempts)
			behind := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return tt.make(func() error { return invoker(ctx, method, req, reply, cc, opts...) })
			}
			conn := dial(t, s.address, append(retries.DialOptions(), grpc.WithChainUnaryInterceptor(behind))...)
			_, err := call(t.Context(), conn, submit, "")
			require.Error(t, err)
			assert.Equal(t, tt.calls, s.count(), recorder.Timeline())
		})
	}
}

// TestUnsentLate has an interceptor that returns before the call has ended. What grpc tells
// of that call later is not taken for news of another call.
func TestUnsentLate(t *testing.T) {
	t.Parallel()
	retries, _ := retrying(attempts)
	attempted := 0
	late := func(error) {}
	returns := func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		attempted++
		late(nil)
		for _, o := range opts {
			if o, ok := o.(grpc.OnFinishCallOption); ok {
				late = o.OnFinish
			}
		}
		return status.Error(codes.Unavailable, "the call goes on")
	}
	conn := dial(t, refused, append(retries.DialOptions(), grpc.WithChainUnaryInterceptor(returns))...)
	for n := range 20 {
		_, err := call(t.Context(), conn, submit, "")
		require.ErrorIs(t, err, retry.StopMaybeApplied)
		require.Equal(t, n+1, attempted)
	}
}

// TestAttemptTimeout has a server that does not answer the first call in time.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	for _, method := range []string{get, submit} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			s := (&server{unary: func(ctx context.Context, call int, in string) (string, error) {
				if call == 1 {
					<-ctx.Done()
				}
				return in, ctx.Err()
			}}).start(t)
			retries := &retrygrpc.Interceptor{Policy: &retry.Policy{
				AttemptTimeout: 2 * time.Second, Backoff: retry.Constant(0),
			}}
			out, err := call(t.Context(), dial(t, s.address, retries.DialOptions()...), method, "job")
			if method == submit {
				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				require.ErrorIs(t, err, retry.StopMaybeApplied)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "job", out)
			assert.Equal(t, 2, s.count())
		})
	}
}

// TestWaitForReady has a server that comes late: the attempts that wait for it do not
// count, however many they are, if the call is to wait.
func TestWaitForReady(t *testing.T) {
	t.Parallel()
	s := failing(1)
	var address atomic.Value // where the server is
	address.Store(refused)
	dialer := func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address.Load().(string))
	}
	waits := 0
	late := func(_ context.Context, e retry.Event) {
		if e.Kind == retry.Retrying && e.Verdict.Category == "grpc_not_ready" {
			if waits++; waits == 5 {
				address.Store(s.start(t).address)
			}
		}
	}
	retries := &retrygrpc.Interceptor{Policy: &retry.Policy{
		MaxAttempts: 2, AttemptTimeout: 300 * time.Millisecond, Observer: &retry.Observer{Event: late}, Backoff: retry.Constant(0),
	}}
	conn := dial(t, "later", append(retries.DialOptions(), grpc.WithContextDialer(dialer))...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testkit.Must(call(ctx, conn, get, "job", grpc.WaitForReady(true)))(t)
	assert.Equal(t, 2, s.count(), "the attempts that reached the server")
	assert.GreaterOrEqual(t, waits, 5)

	// Without it, the attempts are used up.
	conn = dial(t, refused, retries.DialOptions()...)
	_, err := call(ctx, conn, get, "job")
	require.ErrorIs(t, err, retry.StopAttempts)
}

// TestWaitForReadyConfig asks for it in the service config.
func TestWaitForReadyConfig(t *testing.T) {
	t.Parallel()
	retries := &retrygrpc.Interceptor{Policy: &retry.Policy{
		MaxAttempts: 2, AttemptTimeout: 50 * time.Millisecond, Backoff: retry.Constant(0), Timeout: 400 * time.Millisecond,
	}}
	conn := dial(t, refused, append(retries.DialOptions(),
		grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "waitForReady": true}]}`))...)
	_, err := call(t.Context(), conn, get, "job")
	require.ErrorIs(t, err, retry.StopTimeout, "and not that the attempts are used up")
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
	_, err = call(t.Context(), conn, get, "job", grpc.WaitForReady(false))
	require.ErrorIs(t, err, retry.StopAttempts)
}

// TestContexts has the statuses of calls that their callers have ended.
func TestContexts(t *testing.T) {
	t.Parallel()
	s := failing(1000).start(t)
	ctx, cancel := context.WithCancel(t.Context())
	retries := &retrygrpc.Interceptor{Policy: &retry.Policy{
		Backoff:  retry.Constant(time.Hour),
		Observer: &retry.Observer{Event: func(context.Context, retry.Event) { cancel() }},
	}}
	conn := dial(t, s.address, retries.DialOptions()...)

	_, err := call(ctx, conn, get, "")
	assert.Equal(t, codes.Canceled, status.Code(err), "canceled during a wait")
	require.ErrorIs(t, err, context.Canceled)

	_, err = call(ctx, conn, get, "")
	assert.Equal(t, codes.Canceled, status.Code(err), "canceled before")
	_, err = conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, watch)
	assert.Equal(t, codes.Canceled, status.Code(err), "a stream")

	passed, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err = call(passed, conn, get, "")
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err))

	ahead, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before := s.count()
	_, err = call(ahead, conn, get, "")
	assert.Equal(t, codes.Unavailable, status.Code(err), "the wait would be too long: the reason is the server's")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, before+1, s.count())
}

// TestForeignErrors have no status: interceptors behind this one make them.
func TestForeignErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want int // attempts
	}{
		{"unknown", errors.New("no"), 1},
		{"marked", retry.MarkRetryable(errors.New("no")), attempts},
		{"status in a mark", retry.MarkRetryable(status.Error(codes.Internal, "no")), attempts},
		{"status that is wrapped", errors.Join(io.EOF, status.Error(codes.Unavailable, "no")), attempts},
		{"given up already", &retry.Error{Stop: retry.StopAttempts, Err: status.Error(codes.Unavailable, "no")}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			retries, _ := retrying(attempts)
			got := 0
			fails := func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
				got++
				return tt.err
			}
			conn := dial(t, refused, append(retries.DialOptions(), grpc.WithChainUnaryInterceptor(fails))...)
			_, err := call(t.Context(), conn, get, "")
			require.ErrorIs(t, err, tt.err)
			assert.Equal(t, tt.want, got)
		})
	}
}

// TestNested has two Interceptors in one chain: the attempts do not multiply.
func TestNested(t *testing.T) {
	t.Parallel()
	s := failing(1000).start(t)
	outer, _ := retrying(attempts)
	inner, _ := retrying(attempts)
	_, err := call(t.Context(), dial(t, s.address, append(outer.DialOptions(), inner.DialOptions()...)...), get, "")
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Equal(t, attempts, s.count())
}

// TestOn adds codes to those that are retried.
func TestOn(t *testing.T) {
	t.Parallel()
	s := (&server{unary: func(ctx context.Context, _ int, _ string) (string, error) {
		return "", status.Error(codes.Aborted, "no")
	}}).start(t)
	retries, recorder := retrying(attempts)
	retries.Policy.Classifier = retrygrpc.On(retry.Retryable, codes.Internal, codes.Aborted)
	_, err := call(t.Context(), dial(t, s.address, retries.DialOptions()...), get, "")
	assert.Equal(t, codes.Aborted, status.Code(err))
	assert.Equal(t, attempts, s.count())
	assert.Equal(t, "grpc_aborted", recorder.Events()[0].Verdict.Category)
	assert.Zero(t, retrygrpc.On(retry.Retryable, codes.Unknown)(errors.New("no status")))
	assert.Zero(t, retrygrpc.On(retry.Retryable, codes.OK)(nil))
}

func TestClassify(t *testing.T) {
	t.Parallel()
	assert.Equal(t, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "grpc_aborted"},
		retrygrpc.Classify(status.Error(codes.Aborted, "conflict")))
	assert.Equal(t, retry.Verdict{Class: retry.Final, Category: "grpc_other"},
		retrygrpc.Classify(status.Error(codes.Code(1000), "")))
	assert.Equal(t, retry.Verdict{Class: retry.Final, Category: "grpc_other"},
		retrygrpc.Classify(status.Error(codes.Code(1<<32-1), "")))
	assert.Zero(t, retrygrpc.Classify(nil))
}

// TestPanic has an interceptor that panics: it passes through.
func TestPanic(t *testing.T) {
	t.Parallel()
	retries, _ := retrying(attempts)
	boom := func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
		panic("boom")
	}
	conn := dial(t, refused, append(retries.DialOptions(), grpc.WithChainUnaryInterceptor(boom))...)
	assert.PanicsWithValue(t, "boom", func() { _, _ = call(t.Context(), conn, get, "") })
}

// TestPolicyWithoutBackoff checks which settings a Policy gets from DefaultPolicy.
func TestPolicyWithoutBackoff(t *testing.T) {
	t.Parallel()
	s := failing(math.MaxInt).start(t)
	testkit.TakesDefaults(t, func(t *testing.T, p *retry.Policy) {
		t.Helper()
		_, err := call(t.Context(), dial(t, s.address, (&retrygrpc.Interceptor{Policy: p}).DialOptions()...), get, "")
		require.ErrorIs(t, err, retry.StopAttempts)
	})
}

// A RetryInfo that one call gets holds all calls with the Quota, also streams. None of them is
// sent before, and a call without time for that is told at once.
func TestQuota(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	start := clock.Now()
	exhausted, err := status.New(codes.ResourceExhausted, "quota").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(30 * time.Second)})
	require.NoError(t, err)
	var mu sync.Mutex
	var came []time.Duration
	note := func() {
		mu.Lock()
		defer mu.Unlock()
		came = append(came, clock.Now().Sub(start))
	}
	s := (&server{
		unary: func(_ context.Context, n int, in string) (string, error) {
			if note(); n == 1 {
				return "", exhausted.Err()
			}
			return in, nil
		},
		stream: func(n int, stream grpc.ServerStream) error {
			note()
			return echo(0, 0, codes.OK)(n, stream)
		},
	}).start(t)
	quota := &retryquota.Quota{}
	with := func(p retry.Policy) *grpc.ClientConn {
		p.Clock, p.Jitter = clock, retry.NoJitter
		i := &retrygrpc.Interceptor{Policy: &p, Budget: retrygrpc.NoBudget}
		i.QuotaFor = func(_ context.Context, target string) retry.Pacer {
			assert.Contains(t, target, s.address)
			return quota
		}
		return dial(t, s.address, i.DialOptions()...)
	}

	_, err = call(t.Context(), with(retry.Policy{MaxAttempts: 1}), get, "first")
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	_, err = call(t.Context(), with(retry.Policy{Timeout: 10 * time.Second}), get, "hasty")
	gaveUp := testkit.As[*retry.Error](t, err)
	assert.Equal(t, 30*time.Second, gaveUp.RetryAfter)
	require.ErrorIs(t, err, retry.StopTimeout)
	assert.Equal(t, []time.Duration{0}, came)

	assert.Equal(t, "second", testkit.Must(call(t.Context(), with(retry.Policy{}), submit, "second"))(t))
	stream := testkit.Must(watching(t.Context(), with(retry.Policy{}), watch, "event"))(t)
	assert.Equal(t, []string{"event", "event"}, testkit.Must(drain(stream))(t))
	assert.Equal(t, 30*time.Second, came[1])
	assert.Equal(t, 30*time.Second, came[2], "the first has come back")
}
