package retryconnect_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A RetryInfo that one call gets holds all calls with the Quota, in every protocol. None of them
// is sent before, and who has no time for that is told at once.
func TestQuota(t *testing.T) {
	t.Parallel()
	info, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(30 * time.Second)})
	require.NoError(t, err)
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
			quota := &retry.Quota{}
			get := func(p retry.Policy) error {
				p.Quota, p.Clock, p.Jitter = quota, clock, retry.NoJitter
				_, err := call(t.Context(), t, s.URL, &retryconnect.Interceptor{Policy: &p}, connect.IdempotencyUnknown, protocol...)
				return err
			}

			assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(get(retry.Policy{MaxAttempts: 1})))
			var gaveUp *retry.Error
			require.ErrorAs(t, get(retry.Policy{Timeout: 10 * time.Second}), &gaveUp)
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
