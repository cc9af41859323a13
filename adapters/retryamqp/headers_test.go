package retryamqp_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
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
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// silentDead returns a queue whose dead letters nobody takes.
func silentDead(t *testing.T, kind string) *queue {
	t.Helper()
	q := open(t, kind)
	testkit.Must(q.channel.QueueDelete(q.name+".dead", false, false, false))(t) // with its consumer
	return q
}

func (q *queue) publish(msg amqp.Publishing) {
	q.t.Helper()
	require.NoError(q.t, q.channel.Publish("", q.name, true, false, msg))
}

// Headers that cannot be read are no endless loop.
func TestBrokenHeaders(t *testing.T) {
	t.Parallel()
	q := silentDead(t, "classic")
	c := consume(t, q, nil)
	for want, headers := range map[string]amqp.Table{
		"retry-state: retry: state: f=many":               {"retry-state": "f=many"},
		`retry-state: retry: state: "\xff\xfe"`:           {"retry-state": "\xff\xfe"},
		`retry-state: retry: state: "7"`:                  {"retry-state": int64(7)},
		`retry-lost: strconv.ParseInt: parsing "many"`:    {"retry-lost": "many"},
		`retry-due: strconv.ParseInt: parsing "[1 2]"`:    {"retry-due": []any{int64(1), int64(2)}},
		`retry-expires: strconv.ParseInt: parsing "true"`: {"retry-expires": true},
		"before its next attempt":                         {"retry-expires": int32(1)},
	} {
		q.publish(amqp.Publishing{Headers: headers})
		require.NoError(t, c.handle(nil))
		text, _ := c.dead().Headers["retry-error"].(string)
		assert.Contains(t, text, want)
	}
}

// Whatever a stranger counts, a message that kills its worker is run as often as the policy
// says, on a queue that counts and on one that does not.
func TestForgedCounts(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"classic", "quorum"} {
		for _, headers := range []amqp.Table{
			{"retry-lost": int64(-1000000)},
			{"retry-lost": int64(math.MaxInt64), "x-delivery-count": int64(math.MaxInt64)},
			{"x-delivery-count": int64(0)},
			{"x-delivery-count": int64(1), "retry-state": "f=0 r=9223372036854775807"},
			{"retry-due": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), "retry-lost": int32(0)},
		} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				q := open(t, kind)
				c := consume(t, q, &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0), MaxRetryAfter: time.Second})
				q.publish(amqp.Publishing{Headers: headers, Body: []byte("a")})
				runs := 0
				for {
					if o, _ := q.Outcome(t.Context(), "a"); o.Err != "" {
						break
					}
					select {
					case msg := <-c.in:
						testkit.Isolated(func() {
							_ = c.retries.Handle(t.Context(), msg, func(context.Context) error {
								runs++
								runtime.Goexit()
								return nil
							})
						})
					case <-time.After(10 * time.Millisecond):
					}
				}
				assert.LessOrEqual(t, runs, 3)
				assert.Positive(t, runs)
			})
		}
	}
}

// What is the user's stays, and what is the broker's does not.
func TestCopiesKeep(t *testing.T) {
	t.Parallel()
	q := silentDead(t, "classic")
	c := consume(t, q, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(10 * time.Millisecond)})
	own := amqp.Table{
		"x-request-id": "r-1", "x-b3-traceid": "463ac35c9f6413ad", "x-tenant": int32(7), "x-original-exchange": "orders", "x-delay": int64(5),
		"retry-tenant": "acme", "retry": []any{"a", amqp.Table{"b": true}}, "x-received-from": []any{"afar"},
	}
	sent := amqp.Publishing{
		Headers: amqp.Table{"x-death": "forged", "x-delivery-count": int64(9), "x-stream-offset": int64(9), "x-acquired-count": int64(9)},
		Body:    []byte("a"), ContentType: "text/plain", ContentEncoding: "gzip", Priority: 7, CorrelationId: "c", ReplyTo: "answers",
		MessageId: "m", Timestamp: time.Unix(1_700_000_000, 0), Type: "kind-1", UserId: "guest", AppId: "app", DeliveryMode: amqp.Persistent,
	}
	maps.Copy(sent.Headers, own)
	q.publish(sent)
	require.NoError(t, c.handle(assert.AnError))
	second := c.next()
	require.NoError(t, c.retries.Handle(t.Context(), second, func(context.Context) error { return assert.AnError }))
	for _, got := range []amqp.Delivery{second, c.dead()} {
		for name, value := range own {
			assert.Equal(t, value, got.Headers[name], name)
		}
		assert.NotEqual(t, "forged", got.Headers["x-death"])
		assert.NotContains(t, got.Headers, "x-delivery-count")
		assert.NotContains(t, got.Headers, "x-stream-offset")
		assert.NotContains(t, got.Headers, "x-acquired-count")
		kept := amqp.Publishing{
			Headers: sent.Headers, Body: got.Body, ContentType: got.ContentType, ContentEncoding: got.ContentEncoding, Priority: got.Priority,
			CorrelationId: got.CorrelationId, ReplyTo: got.ReplyTo, MessageId: got.MessageId, Timestamp: got.Timestamp,
			Type: got.Type, UserId: got.UserId, AppId: got.AppId, DeliveryMode: got.DeliveryMode,
		}
		assert.Equal(t, sent, kept)
	}
}

// The expiration of a message goes on counting while it waits.
func TestExpiration(t *testing.T) {
	t.Parallel()
	q := silentDead(t, "quorum")
	c := consume(t, q, &retry.Policy{MaxAttempts: 9, Backoff: retry.Schedule{0, time.Second, time.Hour}, Jitter: retry.NoJitter})
	q.publish(amqp.Publishing{Expiration: "60000"})
	require.NoError(t, c.handle(assert.AnError))
	again := c.next()
	left, err := time.ParseDuration(again.Expiration + "ms")
	require.NoError(t, err, "the broker counts where nothing waits")
	assert.Less(t, left, time.Minute)
	assert.Greater(t, left, 30*time.Second)
	require.NoError(t, c.retries.Handle(t.Context(), again, func(context.Context) error { return assert.AnError }))
	require.NoError(t, c.handle(assert.AnError))
	dead := c.dead()
	assert.Contains(t, dead.Headers["retry-error"], "before its next attempt: "+assert.AnError.Error())
	assert.Contains(t, dead.Headers["retry-error"], "the message expires 59m")
	assert.Empty(t, dead.Expiration)
	assert.NotContains(t, dead.Headers, "retry-expires", "it begins anew if it is moved back")
}

// A message whose headers fill a frame of the largest size is no endless loop.
func TestLargestHeaders(t *testing.T) {
	t.Parallel()
	q := silentDead(t, "classic")
	c := consume(t, q, nil)
	for _, size := range []int{120_000, 131_000, 131_038} {
		q.publish(amqp.Publishing{Headers: amqp.Table{"x": strings.Repeat("x", size)}, DeliveryMode: amqp.Persistent})
		require.NoError(t, c.handle(retry.MarkFinal(assert.AnError)))
		dead := c.dead()
		assert.Len(t, dead.Headers["x"], size)
		assert.Equal(t, size < 131_000, dead.Headers["retry-error"] != nil)
		q.publish(amqp.Publishing{Headers: amqp.Table{"x": strings.Repeat("x", size)}, DeliveryMode: amqp.Persistent})
		require.NoError(t, c.handle(assert.AnError))
		if size < 131_000 {
			require.NoError(t, c.handle(nil))
		} else {
			assert.Len(t, c.dead().Headers["x"], size)
		}
	}
}

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
	channel := testkit.Must(c.conn.Channel())(t)
	c.in = testkit.Must(channel.Consume(q.name, "", false, false, false, false, nil))(t)
	return c
}

// next takes the next message.
func (c *consumer) next() amqp.Delivery {
	c.t.Helper()
	return testkit.Soon(c.t, c.in)
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
		msg, ok, err := c.channel.Get(cmp.Or(c.retries.Dead, c.name+".dead"), true)
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

	testkit.Must(q.channel.QueueDelete(q.name+".wait.1024", false, false, false))(t)
	submit("b")
	require.NoError(t, c.handle(assert.AnError))
	require.NoError(t, c.handle(nil))

	testkit.Must(q.channel.QueueDelete(q.name+".dead", false, false, false))(t)
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
	c.retries.Dead = q.name + ".given-up"
	defer func() { testkit.Must(q.channel.QueueDelete(c.retries.Dead, false, false, false))(t) }()
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
	c := consume(t, q, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Observer: events.Observer()})
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	enginekit.Deadline(t, events, func() func(context.Context, func(context.Context) error) error {
		msg := c.next()
		return func(ctx context.Context, fn func(context.Context) error) error { return c.retries.Handle(ctx, msg, fn) }
	})
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
	due := testkit.Must(strconv.ParseInt(msg.Headers["retry-due"].(string), 10, 64))(t)
	assert.WithinRange(t, time.Now(), time.UnixMilli(due), time.Now().Add(time.Hour))
	state := testkit.Must(q.channel.QueueInspect(q.name))(t) //nolint:staticcheck // no other call has the count
	assert.Zero(t, state.Messages)
}

// A consumer that cannot tell the broker anything does not take the message again and again.
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
