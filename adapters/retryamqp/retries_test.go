package retryamqp_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryamqp"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestRootKnowsReplyCodes checks that retry.Classify, which does not import an AMQP client,
// knows the reply codes.
func TestRootKnowsReplyCodes(t *testing.T) {
	t.Parallel()
	for err, want := range map[*amqp.Error]retry.Verdict{
		amqp.ErrClosed:                {Class: retry.Retryable, Category: "amqp_504"},
		{Code: amqp.ConnectionForced}: {Class: retry.Retryable, Category: "amqp_320"},
		{Code: amqp.NotFound}:         {Class: retry.Final, Category: "amqp_404"},
		{Code: amqp.AccessRefused}:    {Class: retry.Final, Category: "amqp_403"},
	} {
		assert.Equal(t, want, retry.Classify(fmt.Errorf("x: %w", err)), "%v", err)
	}
}

// A wait queue is never early, at most an eighth late, and there are few.
func TestRounded(t *testing.T) {
	t.Parallel()
	queues := map[int64]bool{}
	for range 100_000 {
		delay := time.Duration(math.Exp(rand.Float64() * math.Log(float64(time.Hour))))
		ms := retryamqp.Rounded(delay)
		queues[ms] = true
		got := time.Duration(ms) * time.Millisecond
		require.GreaterOrEqual(t, got, delay)
		require.LessOrEqual(t, got, delay+delay/8+time.Millisecond+time.Millisecond/8)
	}
	assert.Less(t, len(queues), 8*23)
	for delay, want := range map[time.Duration]int64{
		0: 1, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Second: 1024,
		1030 * time.Millisecond: 1152, math.MaxInt64: 1 << 31, -1: 1,
	} {
		assert.Equal(t, want, retryamqp.Rounded(delay), "%v", delay)
	}
}

// What is wrong is said by every Handle, until it is right.
func TestRefuses(t *testing.T) {
	t.Parallel()
	r := &retryamqp.Retries{Queue: "enginetest-none"}
	handle := func() error {
		return r.Handle(t.Context(), amqp.Delivery{Acknowledger: acknowledged{}}, func(context.Context) error { return nil })
	}
	require.EqualError(t, handle(), "retryamqp: enginetest-none: the connection is nil, or the queue has no name")
	q := open(t, "classic")
	r.Conn, r.Policy = connect(t, &enginetest.Cable{}), &retry.Policy{MaxDelay: -time.Second}
	require.ErrorContains(t, handle(), "-1s")
	r.Policy = nil
	for range 2 {
		require.ErrorContains(t, handle(), "retryamqp: enginetest-none: Exception (404)")
	}
	r.Queue = q.name
	require.NoError(t, handle())
	require.NoError(t, r.Close())
	require.ErrorIs(t, handle(), amqp.ErrClosed)
	assert.NoError(t, (&retryamqp.Retries{}).Close())
}

// A message without a policy comes again, and has lost no attempt and no State. So does one
// whose function ends its goroutine: this attempt is lost.
func TestNoPolicy(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"quorum", "classic"} {
		q := open(t, kind)
		var said enginekit.Said
		q.failed = said.Hear
		enginekit.NoPolicy(t, q, true, said.Next)
	}
}

// Handle returns in the time that the package comment says, also if the broker is silent when it
// is asked: with the client's own settings, and without heartbeats.
func TestSilence(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "RabbitMQ")
	url := cmp.Or(os.Getenv("RETRY_TEST_AMQP"), "amqp://guest:guest@127.0.0.1:5672/")
	for name, test := range map[string]struct {
		query string
		most  time.Duration
		early bool // before the first request
		err   error
	}{
		"open":                         {"?heartbeat=0", 61 * time.Second, true, nil},
		"declare":                      {"?heartbeat=0", 61 * time.Second, false, assert.AnError},
		"publish":                      {"?heartbeat=0", 61 * time.Second, false, retry.MarkFinal(assert.AnError)},
		"open with heartbeats":         {"", 20 * time.Second, true, nil},
		"declare with heartbeats":      {"", 20 * time.Second, false, assert.AnError},
		"publish with heartbeats":      {"", 20 * time.Second, false, retry.MarkFinal(assert.AnError)},
		"acknowledge":                  {"?heartbeat=0", time.Second, false, nil},
		"acknowledge, with heartbeats": {"", time.Second, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, cable := open(t, "classic"), enginetest.NewLink()
			conn := testkit.Must(amqp.DialConfig(url+test.query, amqp.Config{Dial: cable.Dial}))(t)
			channel := testkit.Must(conn.Channel())(t)
			in := testkit.Must(channel.Consume(q.name, "", false, false, false, false, nil))(t)
			q.publish(amqp.Publishing{})
			msg := <-in
			r := &retryamqp.Retries{Conn: conn, Queue: q.name}
			var at time.Time
			silence := func() {
				t.Cleanup(cable.Silence())
				at = time.Now()
			}
			if test.early {
				silence()
			}
			over := make(chan struct{})
			go func() {
				defer close(over)
				_ = r.Handle(t.Context(), msg, func(context.Context) error {
					silence()
					return test.err
				})
			}()
			enginekit.Returns(t, over, &at, test.most)
		})
	}
}
