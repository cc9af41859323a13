package retrywatermill_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// These tests are about what the package comment warns of. If one fails, Watermill has mended
// that, and the warning can go.

// A subscriber of SQL that is closed in a batch acknowledges what it has not come to.
func TestWatermillSQLForgetsBatch(t *testing.T) {
	t.Parallel()
	db, err := openSQL(t).open(&enginetest.Cable{}, 3)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	publisher, err := delayedSQL(db)
	require.NoError(t, err)
	for i := range 10 {
		require.NoError(t, publisher.Publish("jobs", message.NewMessage(strconv.Itoa(i), []byte("1"))))
	}
	subscriber, err := wmsql.NewDelayedPostgreSQLSubscriber(wmsql.BeginnerFromStdSQL(db),
		wmsql.DelayedPostgreSQLSubscriberConfig{DeleteOnAck: true, AllowNoDelay: true})
	require.NoError(t, err)
	messages, err := subscriber.Subscribe(t.Context(), "jobs")
	require.NoError(t, err)
	next(t, messages).Ack()
	next(t, messages) // in progress
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
	conn, err := nats.Connect(b.url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := conn.JetStream()
	require.NoError(t, err)
	subscribe := func(group string, name func(string, string) string) {
		subscriber, err := wmnats.NewSubscriber(wmnats.SubscriberConfig{
			URL: b.url, QueueGroupPrefix: group, JetStream: wmnats.JetStreamConfig{DurableCalculator: name},
		}, nil)
		require.NoError(t, err)
		messages, err := subscriber.Subscribe(t.Context(), topic)
		require.NoError(t, err)
		next(t, messages) // in progress
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
