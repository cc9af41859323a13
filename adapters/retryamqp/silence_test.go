package retryamqp_test

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryamqp"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

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
			conn, err := amqp.DialConfig(url+test.query, amqp.Config{Dial: cable.Dial})
			require.NoError(t, err)
			channel, err := conn.Channel()
			require.NoError(t, err)
			in, err := channel.Consume(q.name, "", false, false, false, false, nil)
			require.NoError(t, err)
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
			select {
			case <-over:
				t.Logf("returned after %v", time.Since(at).Round(time.Millisecond))
				assert.LessOrEqual(t, time.Since(at), test.most+5*time.Second)
			case <-time.After(100 * time.Second):
				assert.Fail(t, "Handle has not returned")
			}
		})
	}
}
