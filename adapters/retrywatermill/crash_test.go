package retrywatermill_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// delivered is a Lost for JetStream, which counts deliveries; see [counted].
func delivered(msg *message.Message) int {
	n, _ := strconv.Atoi(msg.Metadata.Get("delivered"))
	return n - 1
}

// openCounted opens a queue of NATS whose workers know how often a message was delivered.
func openCounted(t testing.TB, concurrency int) *queue {
	t.Helper()
	q := open(t, func(topics ...string) broker { return openNATS(t, concurrency, topics...) })
	q.lost, q.concurrency = delivered, concurrency
	return q
}

// TestCrash kills worker processes at random moments. The server is in the process of the
// test, which lives.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := openCounted(t, 1)
			b := q.broker.(natsBroker) //nolint:forcetypeassert // see openCounted
			return q, b.url + " " + b.name + " " + q.name
		},
		Attach: func(t testing.TB, address string) enginetest.Queue {
			t.Helper()
			parts := strings.Fields(address)
			q := newQueue(t, parts[2])
			q.lost, q.concurrency = delivered, 1
			q.attach(natsBroker{parts[0], parts[1]})
			return q
		},
		Forgets: true,
	}
	crash.Run(t)
}

// A broker that counts deliveries ends a message that kills its workers, and one whose policy
// is not idempotent.
func TestLost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy retry.Policy
		deaths int
		want   string
	}{
		{retry.Policy{MaxAttempts: 2}, 2, "2: gave up (attempts): retry: worker lost"},
		{retry.Policy{NonIdempotent: true}, 1, "1: gave up (maybe_applied): retry: worker lost"},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			q, events := openCounted(t, 1), &retrytest.Recorder{}
			test.policy.Observer = events
			begun, release := make(chan struct{}, 10), make(chan struct{})
			defer close(release)
			start := func() enginetest.Workers {
				w, err := q.Start(enginetest.Policies{Policy: &test.policy}, func(context.Context, string) error {
					begun <- struct{}{}
					<-release
					return errors.New("nobody hears this")
				})
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, w.Stop(context.Background())) })
				return w
			}
			require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
			for range test.deaths {
				w := start()
				<-begun
				require.NoError(t, w.Kill())
			}
			start()
			q.await("a", enginetest.GaveUp)
			assert.Empty(t, begun)
			require.Eventually(t, func() bool { return len(events.Events()) > 0 }, 10*time.Second, time.Millisecond) // after it is stored
			events.Expect(t, test.want)
		})
	}
}
