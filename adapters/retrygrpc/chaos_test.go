package retrygrpc_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
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
)

var (
	chaosCalls = flag.Int64("chaos.calls", 5_000, "how many calls TestChaos makes")
	chaosSeed  = flag.Uint64("chaos.seed", rand.Uint64(), "what TestChaos does to their connections")
)

// TestChaos makes calls through a proxy that cuts, resets, stalls and swallows, to a server
// that refuses some of them, fails others when it has handled them, and ends connections. No
// call that is not idempotent is handled twice, and every idempotent one ends well or after
// all attempts. A long run:
//
//	go test -run TestChaos -v -timeout 1h -chaos.calls 100000
func TestChaos(t *testing.T) {
	t.Parallel()
	const callers, most, timeout = 20, 6, 100 * time.Millisecond
	var mu sync.Mutex
	handled := map[string]int{}
	var refused, failedLate atomic.Int64
	s := (&server{quiet: true, unary: func(ctx context.Context, _ int, in string) (string, error) {
		if rand.IntN(50) == 0 {
			refused.Add(1)
			return "", retrygrpc.Overloaded(ctx, time.Millisecond, "later")
		}
		mu.Lock()
		handled[in]++
		mu.Unlock()
		if rand.IntN(50) == 0 {
			failedLate.Add(1)
			return "", status.Error(codes.Unavailable, "no")
		}
		return in, nil
	}}).start(t, grpc.MaxConcurrentStreams(callers/2), grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: time.Millisecond,
	}))
	proxy := lying(t, s.address, *chaosSeed, 2*timeout)
	retries := &retrygrpc.Interceptor{
		Policy: &retry.Policy{MaxAttempts: most, AttemptTimeout: timeout, Backoff: retry.Constant(time.Millisecond), Jitter: retry.FullJitter},
		Budget: retrygrpc.NoBudget,
	}
	conn := dial(t, proxy.address, retries.DialOptions()...)
	var next, succeeded, again, failed, unsent atomic.Int64
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
					succeeded.Add(1)
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
	t.Logf("seed %d: %d of %d calls succeeded, %d idempotent ones were handled again and %d failed after all attempts, "+
		"%d others failed after retries of what was not handled; %d calls refused, %d failed when handled; "+
		"connections: %d cut, %d reset, %d stalled, %d swallowed, %d refused", *chaosSeed, succeeded.Load(), *chaosCalls,
		again.Load(), failed.Load(), unsent.Load(), refused.Load(), failedLate.Load(), proxy.met[cut].Load(),
		proxy.met[reset].Load(), proxy.met[stall].Load(), proxy.met[swallow].Load(), proxy.met[refuse].Load())
	for what := range proxy.met {
		assert.Positive(t, proxy.met[what].Load(), "it would show nothing")
	}
	assert.Positive(t, again.Load(), "it would show nothing")
}
