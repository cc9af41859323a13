package retryamqp_test

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestOutage has workers lose the broker again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "RabbitMQ")
	outage := &enginetest.Outage{
		Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
			t.Helper()
			q := open(t, "quorum")
			q.cable = cable
			return q
		},
		Forgets: true,
		Twice:   true,
	}
	outage.Run(t)
}

// cutting is the channel of a message that loses its connection in place of an Ack.
type cutting struct {
	amqp.Acknowledger

	cable *enginetest.Cable
}

func (c cutting) Ack(uint64, bool) error {
	c.cable.Cut()
	return amqp.ErrClosed
}

// A worker that is lost when the broker has the copy of a message, and has not heard that
// the message is done, leaves both. Both go on, each with a count of its own: the message
// counts the attempt as lost and is run at once, and the copy waits.
func TestLostBetweenCopyAndAck(t *testing.T) {
	t.Parallel()
	q := open(t, "quorum")
	p := &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter}
	cable := &enginetest.Cable{}
	lost := consumeOver(t, q, p, cable)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	msg := lost.next()
	msg.Acknowledger = cutting{msg.Acknowledger, cable}
	var ended time.Time
	require.Error(t, lost.retries.Handle(t.Context(), msg, func(context.Context) error {
		ended = time.Now()
		return assert.AnError
	}))

	c := consume(t, q, p)
	var pauses []time.Duration
	for range 6 { // three attempts are left to either
		msg := c.next()
		pauses = append(pauses, time.Since(ended))
		require.NoError(t, c.retries.Handle(t.Context(), msg, func(context.Context) error { return assert.AnError }))
	}
	assert.Less(t, pauses[0], time.Second, "the message, early")
	assert.GreaterOrEqual(t, pauses[1], time.Second, "the copy")
	select {
	case msg := <-c.in:
		assert.Fail(t, "too many attempts", msg)
	case <-time.After(2 * time.Second):
	}
}
