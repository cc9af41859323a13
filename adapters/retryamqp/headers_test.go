package retryamqp_test

import (
	"context"
	"maps"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// silentDead returns a queue whose dead letters nobody takes.
func silentDead(t *testing.T, kind string) *queue {
	t.Helper()
	q := open(t, kind)
	_, err := q.channel.QueueDelete(q.name+".dead", false, false, false) // with its consumer
	require.NoError(t, err)
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
