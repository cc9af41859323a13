package retryconnect_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
)

var (
	chaosCalls = flag.Int64("chaos.calls", 500, "how many calls TestChaos makes with each protocol")
	chaosSeed  = flag.Uint64("chaos.seed", rand.Uint64(), "what TestChaos does to their connections")
)

// lying is a proxy that ends connections after random numbers of bytes, by a reset or not,
// after it has swallowed some of what came or not, and that refuses some.
func lying(t *testing.T, server string, seed uint64, patient time.Duration) (address string, ended *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	ended = new(atomic.Int64)
	pass := func(to, from net.Conn, n int64, swallow, reset bool, end *sync.Once) {
		_, _ = io.CopyN(to, from, n)
		if swallow {
			_ = from.SetReadDeadline(time.Now().Add(patient))
			_, _ = io.Copy(io.Discard, from)
		}
		end.Do(func() {
			ended.Add(1)
			for _, conn := range []net.Conn{to, from} {
				if reset {
					_ = conn.(*net.TCPConn).SetLinger(0)
				}
				_ = conn.Close()
			}
		})
	}
	go func() {
		for n := uint64(0); ; n++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			r := rand.New(rand.NewPCG(seed, n)) //nolint:gosec // for a test
			server, err := net.Dial("tcp", server)
			if err != nil || r.IntN(50) == 0 {
				_ = client.Close()
				continue
			}
			var end sync.Once
			go pass(server, client, 150+r.Int64N(2000), r.IntN(20) == 0, r.IntN(2) == 0, &end)
			go pass(client, server, 150+r.Int64N(2000), r.IntN(20) == 0, r.IntN(2) == 0, &end)
		}
	}()
	return listener.Addr().String(), ended
}

// TestChaos makes calls through a proxy that ends connections, and in part to an address
// where nobody listens, to a server that fails some that it has handled. No call that must
// not be repeated is handled twice.
func TestChaos(t *testing.T) {
	t.Parallel()
	const callers, timeout = 10, 100 * time.Millisecond
	for protocol, opts := range protocols {
		for _, http2 := range []bool{false, true} {
			if protocol == "grpc" && !http2 {
				continue
			}
			t.Run(protocol+", HTTP/2 "+strconv.FormatBool(http2), func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				handled := map[string]int{}
				mux := http.NewServeMux()
				mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(_ context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
					mu.Lock()
					handled[req.Msg.GetValue()]++
					mu.Unlock()
					if rand.IntN(50) == 0 {
						return nil, connect.NewError(connect.CodeUnavailable, errors.New("no"))
					}
					return connect.NewResponse(req.Msg), nil
				}))
				s := serve(t, nil)
				s.Config.Handler = mux
				address, ended := lying(t, s.Listener.Addr().String(), *chaosSeed, 2*timeout)
				transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
					if rand.IntN(20) == 0 {
						return nil, refusedDial
					}
					return (&net.Dialer{}).DialContext(ctx, network, to)
				}}
				transport.Protocols.SetHTTP1(!http2)
				transport.Protocols.SetUnencryptedHTTP2(http2)
				t.Cleanup(transport.CloseIdleConnections)
				retries := &retryconnect.Interceptor{Policy: &retry.Policy{
					MaxAttempts: 6, AttemptTimeout: timeout, Backoff: retry.Constant(time.Millisecond), Budget: &retry.Budget{Reserve: 1 << 20},
				}}
				client := func(level connect.IdempotencyLevel) *connect.Client[text, text] {
					return connect.NewClient[text, text](&http.Client{Transport: transport}, "http://"+address+procedure,
						append(slices.Clip(opts), connect.WithInterceptors(retries), connect.WithIdempotency(level))...)
				}
				once, repeatable := client(connect.IdempotencyUnknown), client(connect.IdempotencyIdempotent)
				var next, succeeded, unsent atomic.Int64
				var callersDone sync.WaitGroup
				for range callers {
					callersDone.Go(func() {
						for n := next.Add(1); n <= *chaosCalls; n = next.Add(1) {
							in, c := strconv.FormatInt(n, 10), once
							if n%10 == 0 {
								c = repeatable
							}
							out, err := c.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String(in)))
							var gaveUp *retry.Error
							switch {
							case err == nil:
								succeeded.Add(1)
								assert.Equal(t, in, out.Msg.GetValue())
							case n%10 == 0: // after all attempts, or an error of net/http without a type
							case errors.As(err, &gaveUp) && gaveUp.Attempts > 1:
								unsent.Add(1)
							}
						}
					})
				}
				callersDone.Wait()
				mu.Lock()
				defer mu.Unlock()
				twice, again := 0, 0
				for in, times := range handled {
					if n, _ := strconv.Atoi(in); times > 1 && n%10 == 0 {
						again++
					} else if times > 1 {
						twice++
					}
				}
				assert.Zero(t, twice, "calls handled twice")
				assert.Positive(t, again, "it would show nothing")
				t.Logf("seed %d: %d of %d calls succeeded, %d idempotent ones were handled again, %d others failed after retries "+
					"of what was not handled; %d connections ended", *chaosSeed, succeeded.Load(), *chaosCalls, again, unsent.Load(), ended.Load())
			})
		}
	}
}
