package retrygrpc_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// TestRefusals looks at what a bare client gets.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		refuse func(context.Context, time.Duration, string) error
		after  time.Duration
		code   codes.Code
		ms     int // the least of the pushback
	}{
		{"overloaded", retrygrpc.Overloaded, 2 * time.Second, codes.Unavailable, 2000},
		{"rate limited", retrygrpc.RateLimited, 2 * time.Second, codes.ResourceExhausted, 2000},
		{"rounded up", retrygrpc.Overloaded, 1, codes.Unavailable, 1},
		{"not to come back", retrygrpc.Overloaded, 0, codes.Unavailable, -1},
		{"longer than a trailer can say", retrygrpc.Overloaded, 1 << 62, codes.Unavailable, 1<<31 - 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&server{unary: func(ctx context.Context, _ int, _ string) (string, error) {
				return "", tt.refuse(ctx, tt.after, "later")
			}}).start(t)
			var trailer metadata.MD
			_, err := call(t.Context(), dial(t, s.address), submit, "", grpc.Trailer(&trailer))
			assert.Equal(t, tt.code, status.Code(err))
			assert.Equal(t, "later", status.Convert(err).Message())
			require.Len(t, trailer["grpc-retry-pushback-ms"], 1)
			ms := testkit.Must(strconv.Atoi(trailer["grpc-retry-pushback-ms"][0]))(t)
			assert.GreaterOrEqual(t, ms, tt.ms)
			assert.LessOrEqual(t, float64(ms), float64(tt.ms)*1.1+1)
			if tt.after <= 0 {
				assert.Empty(t, status.Convert(err).Details())
				return
			}
			require.Len(t, status.Convert(err).Details(), 1)
			assert.Equal(t, tt.after, status.Convert(err).Details()[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration())
		})
	}
	assert.Equal(t, codes.Unavailable, status.Code(retrygrpc.Overloaded(t.Context(), 1, "")), "without a call")
}

// TestRefusalsOfGRPC has a client with the retries of grpc itself, whose backoff is longer than the refusal.
// The Interceptor as the client is in TestStream and TestRequestStream.
func TestRefusalsOfGRPC(t *testing.T) {
	t.Parallel()
	s := (&server{unary: func(ctx context.Context, call int, in string) (string, error) {
		if call == 1 {
			return "", retrygrpc.Overloaded(ctx, time.Millisecond, "later")
		}
		return in, nil
	}}).start(t)
	conn := dial(t, s.address, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4,
		"initialBackoff": "100s", "maxBackoff": "100s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`))
	testkit.Must(call(t.Context(), conn, submit, ""))(t)
}

// refusedElsewhere is what a handler may get from another server.
type refusedElsewhere struct{}

func (refusedElsewhere) Error() string             { return "429 Too Many Requests" }
func (refusedElsewhere) HTTPStatusCode() int       { return 429 }
func (refusedElsewhere) RetryAfter() time.Duration { return time.Second }

// TestServerInterceptors has handlers that return errors of package retry.
func TestServerInterceptors(t *testing.T) {
	t.Parallel()
	limited := retry.MarkRateLimited(errors.New("too many jobs"), 3*time.Second)
	for _, tt := range []struct {
		name string
		err  error
		code codes.Code
		info bool
	}{
		{"rate limited", limited, codes.ResourceExhausted, true},
		{"rate limited without a time", retry.MarkRateLimited(errors.New("no"), 0), codes.Unknown, false},
		{"other", errors.New("no"), codes.Unknown, false},
		{"may have had an effect", retry.Mark(errors.New("no"), retry.Verdict{Class: retry.RateLimited, After: 1}), codes.Unknown, false},
		{"another server's refusal", refusedElsewhere{}, codes.Unknown, false},
		{"status", status.Error(codes.NotFound, "no"), codes.NotFound, false},
		{"success", nil, codes.OK, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sends := false
			s := (&server{
				unary: func(context.Context, int, string) (string, error) { return "", tt.err },
				stream: func(_ int, stream grpc.ServerStream) error {
					if sends {
						_ = stream.SendMsg(wrapperspb.String("x"))
					}
					return tt.err
				},
			}).start(t, grpc.UnaryInterceptor(retrygrpc.UnaryServer), grpc.StreamInterceptor(retrygrpc.StreamServer))
			conn := dial(t, s.address)
			_, err := call(t.Context(), conn, submit, "")
			assert.Equal(t, tt.code, status.Code(err))
			assert.Equal(t, tt.info, len(status.Convert(err).Details()) == 1)

			stream := testkit.Must(watching(t.Context(), conn, watch, ""))(t)
			_, err = drain(stream)
			assert.Equal(t, tt.code, status.Code(err))
			assert.Equal(t, tt.info, len(status.Convert(err).Details()) == 1)

			sends = true
			stream = testkit.Must(watching(t.Context(), conn, watch, ""))(t)
			_, err = drain(stream)
			assert.Empty(t, status.Convert(err).Details(), "after a message")
		})
	}
}

var (
	chaosCalls = flag.Int64("chaos.calls", 5_000, "how many calls TestChaos makes")
	chaosSeed  = flag.Uint64("chaos.seed", rand.Uint64(), "what TestChaos does to their connections")
)

// lying is a proxy that ends connections after random numbers of bytes, by a reset or not,
// after it has swallowed what comes for a while or not, and that refuses some.
func lying(t *testing.T, server string, seed uint64, patient time.Duration) (address string, ended *atomic.Int64) {
	t.Helper()
	ended = new(atomic.Int64)
	pass := func(to, from net.Conn, n int64, swallow, reset bool) {
		_, _ = io.CopyN(to, from, n)
		if swallow {
			_ = from.SetReadDeadline(time.Now().Add(patient))
			_, _ = io.Copy(io.Discard, from)
		}
		ended.Add(1)
		for _, conn := range []net.Conn{to, from} {
			if reset {
				provoke.Reset(conn)
			}
			_ = conn.Close()
		}
	}
	var connections atomic.Uint64
	proxy := provoke.Serve(t, func(client net.Conn) {
		r := rand.New(rand.NewPCG(seed, connections.Add(1))) //nolint:gosec // for a test
		server, err := net.Dial("tcp", server)
		if err != nil || r.IntN(50) == 0 {
			return
		}
		go pass(server, client, 150+r.Int64N(1000), r.IntN(20) == 0, r.IntN(2) == 0)
		pass(client, server, 150+r.Int64N(1000), r.IntN(20) == 0, r.IntN(2) == 0)
	})
	return proxy.Addr, ended
}

// TestChaos makes calls through a proxy that ends connections, to a server that refuses some of
// them, fails others when it has handled them, and ends connections. No call that is not idempotent
// is handled twice, and every idempotent one ends well or after all attempts. A long run:
//
//	go test -run TestChaos -v -timeout 1h -chaos.calls 100000
func TestChaos(t *testing.T) {
	t.Parallel()
	const callers, most, timeout = 20, 6, 100 * time.Millisecond
	var mu sync.Mutex
	handled := map[string]int{}
	s := (&server{quiet: true, unary: func(ctx context.Context, _ int, in string) (string, error) {
		if rand.IntN(50) == 0 {
			return "", retrygrpc.Overloaded(ctx, time.Millisecond, "later")
		}
		mu.Lock()
		handled[in]++
		mu.Unlock()
		if rand.IntN(50) == 0 {
			return "", status.Error(codes.Unavailable, "no")
		}
		return in, nil
	}}).start(t, grpc.MaxConcurrentStreams(callers/2), grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: time.Millisecond,
	}))
	address, ended := lying(t, s.address, *chaosSeed, 2*timeout)
	retries := &retrygrpc.Interceptor{
		Policy: &retry.Policy{MaxAttempts: most, AttemptTimeout: timeout, Backoff: retry.Constant(time.Millisecond), Jitter: retry.FullJitter},
		Budget: retrygrpc.NoBudget,
	}
	conn := dial(t, address, retries.DialOptions()...)
	var next, again, failed, unsent atomic.Int64
	var callersDone sync.WaitGroup
	for range callers {
		callersDone.Go(func() {
			for n := next.Add(1); n <= *chaosCalls; n = next.Add(1) {
				in, method := strconv.FormatInt(n, 10), submit
				if n%10 == 0 {
					method = get
				}
				out, err := call(context.Background(), conn, method, in)
				mu.Lock()
				times := handled[in]
				mu.Unlock()
				var gaveUp *retry.Error
				errors.As(err, &gaveUp)
				switch {
				case err == nil:
					assert.Equal(t, in, out)
					assert.Positive(t, times)
					again.Add(int64(times - 1))
				case method == get:
					failed.Add(1)
					if assert.NotNil(t, gaveUp, err) {
						assert.Equal(t, most, gaveUp.Attempts, err)
					}
				case gaveUp != nil && gaveUp.Attempts > 1:
					unsent.Add(1)
				}
			}
		})
	}
	callersDone.Wait()
	mu.Lock()
	defer mu.Unlock()
	twice := 0
	for in, times := range handled {
		if n, _ := strconv.Atoi(in); n%10 != 0 && times > 1 {
			twice++
		}
	}
	assert.Zero(t, twice, "calls handled twice")
	assert.Positive(t, again.Load(), "it would show nothing")
	t.Logf("seed %d: of %d calls, %d idempotent ones were handled again and %d failed after all attempts, %d others failed after "+
		"retries of what was not handled; %d connections ended", *chaosSeed, *chaosCalls, again.Load(), failed.Load(), unsent.Load(), ended.Load())
}
