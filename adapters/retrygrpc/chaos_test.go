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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
)

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
