package retrywatermill_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrywatermill"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// consume starts a router for a topic, and returns what it logs.
func consume(
	t *testing.T, r *retrywatermill.Retries, topic string, subscriber message.Subscriber, fn func(*message.Message) error,
) *watermill.CaptureLoggerAdapter {
	t.Helper()
	log := watermill.NewCaptureLogger()
	router := testkit.Must(message.NewRouter(message.RouterConfig{CloseTimeout: 2 * time.Second}, log))(t)
	router.AddMiddleware(r.Middleware)
	router.AddConsumerHandler("import", topic, subscriber, fn)
	go func() { assert.NoError(t, router.Run(context.Background())) }()
	<-router.Running()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		assert.NoError(t, r.Close(ctx))
		assert.NoError(t, router.Close())
	})
	return log
}

func hasLogged(log *watermill.CaptureLoggerAdapter, part string) bool {
	for _, m := range log.Captured()[watermill.ErrorLogLevel] {
		if m.Err != nil && strings.Contains(m.Err.Error(), part) {
			return true
		}
	}
	return false
}

// A message near the limit of the broker has its State, and loses most of the error's text. One
// at the limit has no room: its attempts are made in one delivery, and it ends as it came.
func TestLimitOfSize(t *testing.T) {
	t.Parallel()
	topics := []string{random("big-"), random("dead-")}
	b := openNATS(t, many, topics...)
	publisher, subscriber, err := b.dial(&enginetest.Cable{}, many)
	require.NoError(t, err)
	dead := testkit.Must(subscriber.Subscribe(t.Context(), topics[1]))(t)
	attempts := make(chan int, 100)
	consume(t, &retrywatermill.Retries{
		Publisher: publisher, Poison: topics[1], Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)},
	}, topics[0], subscriber, func(msg *message.Message) error {
		attempts <- len(msg.Payload)
		return errors.New(strings.Repeat("x", 100_000))
	})
	const limit, headers, room = 1 << 20, 84, 500
	near := bytes.Repeat([]byte{'x'}, limit-headers-room)
	require.NoError(t, publisher.Publish(topics[0], message.NewMessage("some-id", near)))
	msg := testkit.Soon(t, dead)
	msg.Ack()
	assert.Len(t, msg.Payload, len(near))
	assert.Contains(t, msg.Metadata.Get("reason_poisoned"), "failed after 2 attempts: xxx")
	assert.Len(t, attempts, 2)

	at := bytes.Repeat([]byte{'x'}, limit)
	for publisher.Publish(topics[0], message.NewMessage(watermill.NewUUID(), at)) != nil {
		at = at[1:]
	}
	msg = testkit.Soon(t, dead)
	msg.Ack()
	assert.Len(t, msg.Payload, len(at))
	assert.NotContains(t, msg.Metadata, "reason_poisoned")
	assert.Len(t, attempts, 4)
}

// A publisher whose credentials are refused loses nothing. Redis keeps the State meanwhile, so
// the attempts are counted.
func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	topic := random("jobs-")
	b := openRedis(t, topic, topic+poisoned)
	_, subscriber, err := b.dial(&enginetest.Cable{}, 1)
	require.NoError(t, err)
	options := *redisClient(&enginetest.Cable{}).Options()
	allowed := testkit.Must(redisstream.NewPublisher(redisstream.PublisherConfig{Client: redis.NewClient(&options)}, nil))(t)
	refused := options
	refused.Username, refused.Password = "nobody", "wrong"
	publisher := testkit.Must(redisstream.NewPublisher(redisstream.PublisherConfig{Client: redis.NewClient(&refused)}, nil))(t)
	attempts := make(chan struct{}, 100)
	retries := &retrywatermill.Retries{Publisher: publisher, Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}}
	log := consume(t, retries, topic, subscriber, func(*message.Message) error {
		attempts <- struct{}{}
		return assert.AnError
	})
	require.NoError(t, allowed.Publish(topic, message.NewMessage("some-id", []byte("x"))))
	for !hasLogged(log, "cannot publish message to poison queue") {
		time.Sleep(10 * time.Millisecond)
	}
	assert.True(t, hasLogged(log, "WRONGPASS"))
	assert.Len(t, attempts, 2)
}

// Messages of a broker that cannot wait do so in PostgreSQL. Watermill's requeuer, without its
// middleware, moves them back.
func TestDelayed(t *testing.T) {
	t.Parallel()
	db := testkit.Must(openSQL(t).open(&enginetest.Cable{}, 3))(t)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	delayed := testkit.Must(delayedSQL(db))(t)
	subscriber := testkit.Must(delayedSubscriber(db))(t)
	require.NoError(t, subscriber.(message.SubscribeInitializer).SubscribeInitialize("requeue")) // two at a time fail
	memory := openChannel()
	requeuer := testkit.Must(wmsql.NewPostgreSQLDelayedRequeuer(wmsql.DelayedRequeuerConfig{
		DB: wmsql.BeginnerFromStdSQL(db), Publisher: memory,
	}))(t)
	over := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(over)
		assert.NoError(t, requeuer.Run(ctx))
	}()
	defer func() {
		cancel()
		<-over
	}()
	attempts := make(chan time.Time, 10)
	retries := &retrywatermill.Retries{
		Publisher: memory, Delayed: delayed, DelayedTopic: "requeue", Hold: time.Millisecond,
		Policy: &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(500 * time.Millisecond), Jitter: retry.NoJitter},
	}
	consume(t, retries, "jobs", memory, func(*message.Message) error {
		attempts <- time.Now()
		return assert.AnError
	})
	dead := testkit.Must(memory.Subscribe(t.Context(), "jobs_poison"))(t)
	require.NoError(t, memory.Publish("jobs", message.NewMessage("some-id", []byte("1"))))
	msg := testkit.Soon(t, dead)
	msg.Ack()
	assert.Contains(t, msg.Metadata.Get("reason_poisoned"), "failed after 3 attempts")
	assert.NotContains(t, msg.Metadata, "retry-state")
	last := <-attempts
	for range 2 {
		next := <-attempts
		assert.GreaterOrEqual(t, next.Sub(last), 500*time.Millisecond)
		last = next
	}
}

// The tests of Watermill itself are about what the package comment warns of. If one fails, it has mended
// that, and the warning can go.

// A subscriber of SQL that is closed in a batch acknowledges what it has not come to.
func TestWatermillSQLForgetsBatch(t *testing.T) {
	t.Parallel()
	db := testkit.Must(openSQL(t).open(&enginetest.Cable{}, 3))(t)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	publisher := testkit.Must(delayedSQL(db))(t)
	for i := range 10 {
		require.NoError(t, publisher.Publish("jobs", message.NewMessage(strconv.Itoa(i), []byte("1"))))
	}
	subscriber := testkit.Must(wmsql.NewDelayedPostgreSQLSubscriber(wmsql.BeginnerFromStdSQL(db),
		wmsql.DelayedPostgreSQLSubscriberConfig{DeleteOnAck: true, AllowNoDelay: true}))(t)
	messages := testkit.Must(subscriber.Subscribe(t.Context(), "jobs"))(t)
	testkit.Soon(t, messages).Ack()
	testkit.Soon(t, messages) // in progress
	require.NoError(t, subscriber.Close())
	var left int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM watermill_jobs`).Scan(&left))
	assert.Zero(t, left, "of nine that are not acknowledged")
}

// A subscriber of NATS acknowledges what it leaves, unless the user says ManualAck, and deletes
// a consumer that it has made.
func TestWatermillNATSForgets(t *testing.T) {
	t.Parallel()
	topic := random("jobs-")
	b := openNATS(t, many, topic)
	publisher, _, err := b.dial(&enginetest.Cable{}, many)
	require.NoError(t, err)
	require.NoError(t, publisher.Publish(topic, message.NewMessage("x", nil)))
	conn := testkit.Must(nats.Connect(b.url))(t)
	t.Cleanup(conn.Close)
	js := testkit.Must(conn.JetStream())(t)
	subscribe := func(group string, name func(string, string) string) {
		subscriber := testkit.Must(wmnats.NewSubscriber(wmnats.SubscriberConfig{
			URL: b.url, QueueGroupPrefix: group, JetStream: wmnats.JetStreamConfig{DurableCalculator: name},
		}, nil))(t)
		messages := testkit.Must(subscriber.Subscribe(t.Context(), topic))(t)
		testkit.Soon(t, messages) // in progress
		require.NoError(t, subscriber.Close())
	}
	subscribe("workers", durable)
	assert.Eventually(t, func() bool {
		info, err := js.ConsumerInfo(b.name, durable("", topic))
		return assert.NoError(t, err) && info.NumAckPending == 0 && info.AckFloor.Stream == 1
	}, 10*time.Second, 10*time.Millisecond)
	subscribe("others", func(string, string) string { return "mine" })
	assert.Eventually(t, func() bool {
		_, err := js.ConsumerInfo(b.name, "mine")
		return errors.Is(err, nats.ErrConsumerNotFound)
	}, 10*time.Second, 10*time.Millisecond)
}
