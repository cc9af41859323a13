package retrygrpc_test

import (
	"context"
	"errors"
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

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
)

// breaking is a proxy that breaks connections after random numbers of bytes.
func breaking(t *testing.T, address string) (proxy string, broken *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	broken = new(atomic.Int64)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				_ = client.Close()
				return
			}
			var once sync.Once
			cut := func() {
				once.Do(func() {
					broken.Add(1)
					_ = client.(*net.TCPConn).SetLinger(0) // a reset
					_ = client.Close()
					_ = server.Close()
				})
			}
			pass := func(to io.Writer, from io.Reader, n int64) {
				defer cut()
				_, _ = io.CopyN(to, from, n)
			}
			go pass(server, client, 150+rand.Int64N(1000))
			go pass(client, server, 150+rand.Int64N(1000))
		}
	}()
	return listener.Addr().String(), broken
}

// TestChaos makes 10,000 calls through a proxy that breaks connections. No call that is
// not idempotent is applied twice, and every idempotent one ends well or after all
// attempts.
func TestChaos(t *testing.T) {
	t.Parallel()
	const calls, callers, most = 10_000, 20, 6
	var mu sync.Mutex
	applied := map[string]int{}
	s := (&server{unary: func(_ context.Context, _ int, in string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		applied[in]++
		return in, nil
	}}).start(t)
	address, broken := breaking(t, s.address)
	retries := &retrygrpc.Interceptor{
		Policy: &retry.Policy{MaxAttempts: most, Backoff: retry.Constant(time.Millisecond), Jitter: retry.FullJitter},
		Budget: retrygrpc.NoBudget,
	}
	conn := dial(t, address, retries.DialOptions()...)
	var next, again, failed, unsent atomic.Int64
	var callersDone sync.WaitGroup
	for range callers {
		callersDone.Go(func() {
			for n := next.Add(1); n <= calls; n = next.Add(1) {
				in, method := strconv.FormatInt(n, 10), get
				if n%2 == 1 {
					method = submit
				}
				out, err := call(context.Background(), conn, method, in)
				mu.Lock()
				times := applied[in]
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
				if method == submit {
					assert.LessOrEqual(t, times, 1)
				}
			}
		})
	}
	callersDone.Wait()
	t.Logf("%d connections broken, %d idempotent calls applied again, %d failed after all attempts; "+
		"%d others failed after retries of what was not sent", broken.Load(), again.Load(), failed.Load(), unsent.Load())
	assert.Greater(t, broken.Load(), int64(100), "it would show nothing")
	assert.Positive(t, again.Load(), "it would show nothing")
	mu.Lock()
	defer mu.Unlock()
	for n := 1; n <= calls; n += 2 {
		assert.LessOrEqual(t, applied[strconv.Itoa(n)], 1)
	}
}
