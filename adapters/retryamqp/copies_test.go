package retryamqp_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryamqp"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// consumer takes the messages of a queue one by one.
type consumer struct {
	*queue

	t       *testing.T
	conn    *amqp.Connection
	retries *retryamqp.Retries
	in      <-chan amqp.Delivery
}

func consume(t *testing.T, q *queue, p *retry.Policy) *consumer {
	t.Helper()
	return consumeOver(t, q, p, &enginetest.Cable{})
}

func consumeOver(t *testing.T, q *queue, p *retry.Policy, cable *enginetest.Cable) *consumer {
	t.Helper()
	c := &consumer{queue: q, t: t, conn: connect(t, cable)}
	c.retries = &retryamqp.Retries{Policy: p, Conn: c.conn, Queue: q.name}
	channel, err := c.conn.Channel()
	require.NoError(t, err)
	c.in, err = channel.Consume(q.name, "", false, false, false, false, nil)
	require.NoError(t, err)
	return c
}

// next takes the next message.
func (c *consumer) next() amqp.Delivery {
	c.t.Helper()
	select {
	case msg := <-c.in:
		return msg
	case <-time.After(30 * time.Second):
		require.Fail(c.t, "the message does not come")
		return amqp.Delivery{}
	}
}

// handle has the next message end with err.
func (c *consumer) handle(err error) error {
	c.t.Helper()
	return c.retries.Handle(c.t.Context(), c.next(), func(context.Context) error { return err })
}

// dead returns the message that was given up.
func (c *consumer) dead() (dead amqp.Delivery) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		msg, ok, err := c.channel.Get(c.name+".dead", true)
		dead = msg
		return assert.NoError(c.t, err) && ok
	}, 10*time.Second, 10*time.Millisecond)
	return dead
}

// The broker confirms a copy for a queue that is gone, too. It is declared again.
func TestQueuesOfCopiesAreGone(t *testing.T) {
	t.Parallel()
	q := open(t, "quorum")
	c := consume(t, q, &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Second)})
	submit := func(job string) { require.NoError(t, q.Submit(t.Context(), "kind-1", job)) }
	submit("a")
	require.NoError(t, c.handle(assert.AnError)) // declares the queue
	require.NoError(t, c.handle(nil))

	_, err := q.channel.QueueDelete(q.name+".wait.1024", false, false, false)
	require.NoError(t, err)
	submit("b")
	require.NoError(t, c.handle(assert.AnError))
	require.NoError(t, c.handle(nil))

	_, err = q.channel.QueueDelete(q.name+".dead", false, false, false)
	require.NoError(t, err)
	submit("c")
	require.NoError(t, c.handle(retry.MarkFinal(assert.AnError)))
	assert.Equal(t, "c", string(c.dead().Body))
}

// What was given up and is moved back begins anew. A response body in its error does not close
// the connection.
func TestMovedBack(t *testing.T) {
	t.Parallel()
	q := silentDead(t, "quorum")
	c := consume(t, q, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)})
	long := errors.New(strings.Repeat("ä", 100_000))
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	for range 3 {
		require.NoError(t, c.handle(long))
		require.NoError(t, c.handle(long))
		dead := c.dead()
		text, _ := dead.Headers["retry-error"].(string)
		assert.Greater(t, len(text), 8000)
		assert.Less(t, len(text), 9000)
		assert.True(t, utf8.ValidString(text))
		q.publish(amqp.Publishing{Headers: dead.Headers, Body: dead.Body})
	}
	assert.False(t, c.conn.IsClosed())
}

// A message that takes too long each time ends. A context that is canceled before an
// attempt costs none.
func TestDeadline(t *testing.T) {
	t.Parallel()
	q, events := open(t, "quorum"), &retrytest.Recorder{}
	c := consume(t, q, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Observer: events})
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, c.retries.Handle(canceled, c.next(), nil))
	for calls := 0; calls < 2; { // on a busy machine it may be too late before an attempt
		msg := c.next()
		late, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.NoError(t, c.retries.Handle(late, msg, func(ctx context.Context) error {
			calls++
			<-ctx.Done()
			return assert.AnError
		}))
		cancel()
	}
	events.Expect(t, "1: "+assert.AnError.Error()+": retry in 0s", "2: gave up (attempts): "+assert.AnError.Error())
}

// Whom else the first publisher sent the message to does not concern the copies.
func TestFurtherQueues(t *testing.T) {
	t.Parallel()
	q := open(t, "classic")
	c := consume(t, q, &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Second)})
	require.NoError(t, q.channel.Publish("", "nobody", false, false, amqp.Publishing{
		Body: []byte("a"), Headers: amqp.Table{"CC": []any{q.name}, "tenant": "x"},
	}))
	require.NoError(t, c.handle(assert.AnError))
	msg := c.next()
	assert.Contains(t, msg.Headers, "retry-due")
	assert.Equal(t, "x", msg.Headers["tenant"])
	due, err := strconv.ParseInt(msg.Headers["retry-due"].(string), 10, 64)
	require.NoError(t, err)
	assert.WithinRange(t, time.Now(), time.UnixMilli(due), time.Now().Add(time.Hour))
	state, err := q.channel.QueueInspect(q.name) //nolint:staticcheck // no other call has the count
	require.NoError(t, err)
	assert.Zero(t, state.Messages)
}

// Who cannot tell the broker anything does not take the message again and again.
func TestChannelClosed(t *testing.T) {
	t.Parallel()
	q := open(t, "quorum")
	c := consume(t, q, nil)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	require.NoError(t, c.retries.Close())
	require.ErrorIs(t, c.handle(assert.AnError), amqp.ErrClosed)
	select {
	case <-c.in:
		assert.Fail(t, "the message came again")
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, c.conn.Close())
	again := consume(t, q, nil)
	require.NoError(t, again.handle(nil))
}

// acknowledged is the channel of a message that was not consumed.
type acknowledged struct{}

func (acknowledged) Ack(uint64, bool) error        { return nil }
func (acknowledged) Nack(uint64, bool, bool) error { return errors.New("not to be sent back") }
func (acknowledged) Reject(uint64, bool) error     { return errors.New("not to be rejected") }

// Queues are declared while others publish. The frames of a copy must not be torn apart
// by that: the broker would close the connection.
func TestDeclareWhilePublishing(t *testing.T) {
	t.Parallel()
	q := open(t, "classic")
	retries := &retryamqp.Retries{Conn: connect(t, &enginetest.Cable{}), Queue: q.name}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 100 {
				retries.Forget()
				assert.NoError(t, retries.Handle(t.Context(), amqp.Delivery{Acknowledger: acknowledged{}, Body: []byte("job")},
					func(context.Context) error { return retry.MarkRetryable(assert.AnError) }))
			}
		})
	}
	all.Wait()
	assert.NoError(t, retries.Close())
}
