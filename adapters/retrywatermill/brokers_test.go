package retrywatermill_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// broker is one that Watermill reaches. A process dials it over a cable, for a number of
// messages at a time.
type broker interface {
	dial(cable *enginetest.Cable, concurrency int) (message.Publisher, message.Subscriber, error)
}

func random(prefix string) string { return prefix + strings.ToLower(rand.Text()[:10]) }

// channel is a broker in the memory of the process.
type channel struct{ *gochannel.GoChannel }

func openChannel() channel {
	return channel{gochannel.NewGoChannel(gochannel.Config{}, nil)}
}

func (c channel) dial(*enginetest.Cable, int) (message.Publisher, message.Subscriber, error) {
	return c, c, nil
}

// Close does nothing: a router that is closed would end it for all.
func (channel) Close() error { return nil }

// natsBroker is a stream of JetStream, with a subject for each topic.
type natsBroker struct{ url, name string }

func openNATS(t testing.TB, concurrency int, topics ...string) natsBroker {
	t.Helper()
	s := testkit.Must(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	}))(t)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	require.True(t, s.ReadyForConnections(10*time.Second))
	b := natsBroker{s.ClientURL(), random("enginetest-")}
	conn, err := nats.Connect(b.url)
	require.NoError(t, err, "NATS does not answer")
	js := testkit.Must(conn.JetStream())(t)
	testkit.Must(js.AddStream(&nats.StreamConfig{Name: b.name, Subjects: topics, Storage: nats.MemoryStorage}))(t)
	for _, topic := range topics { // a subscriber that had to make one would delete it
		testkit.Must(js.AddConsumer(b.name, &nats.ConsumerConfig{
			Durable: durable("", topic), FilterSubject: topic, DeliverSubject: nats.NewInbox(), DeliverGroup: "workers",
			AckPolicy: nats.AckExplicitPolicy, AckWait: natsAckWait(concurrency), MaxAckPending: concurrency,
		}))(t)
	}
	t.Cleanup(func() {
		assert.NoError(t, js.DeleteStream(b.name))
		conn.Close()
	})
	return b
}

// counted puts into the metadata how often the server has delivered a message.
type counted struct{ wmnats.NATSMarshaler }

// Unmarshal implements [wmnats.Unmarshaler].
func (c *counted) Unmarshal(m *nats.Msg) (*message.Message, error) {
	msg, err := c.NATSMarshaler.Unmarshal(m)
	if meta, metaErr := m.Metadata(); err == nil && metaErr == nil {
		msg.Metadata.Set("delivered", strconv.FormatUint(meta.NumDelivered, 10))
	}
	return msg, err
}

// natsAckWait is when the server delivers again what a dead worker has left. The subscriber gives a
// message up sooner: what ignores its context would otherwise decide beside the next attempt.
func natsAckWait(concurrency int) time.Duration {
	if concurrency == 1 { // worker processes, which die often
		return time.Second
	}
	return 3 * time.Second
}

func durable(_, topic string) string { return "workers-" + topic }

func (b natsBroker) dial(cable *enginetest.Cable, concurrency int) (message.Publisher, message.Subscriber, error) {
	conn, err := nats.Connect(b.url, nats.SetCustomDialer(cable), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond), nats.PingInterval(500*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	publisher, err := wmnats.NewPublisherWithNatsConn(conn, wmnats.PublisherPublishConfig{
		Marshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator,
		JetStream: wmnats.JetStreamConfig{TrackMsgId: true}, // drops messages with the same UUID
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	subscriber, err := wmnats.NewSubscriberWithNatsConn(conn, wmnats.SubscriberSubscriptionConfig{
		Unmarshaler: &counted{}, SubscribersCount: concurrency, AckWaitTimeout: natsAckWait(concurrency) * 14 / 15, QueueGroupPrefix: "workers",
		JetStream: wmnats.JetStreamConfig{
			DurableCalculator: durable, SubscribeOptions: []nats.SubOpt{nats.ManualAck()},
		},
	}, nil)
	return publisher, subscriber, err
}

// redisBroker is a server with streams.
type redisBroker struct{}

func redisClient(cable *enginetest.Cable) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: cmp.Or(os.Getenv("RETRY_TEST_REDIS"), "127.0.0.1:6379"), Dialer: cable.DialContext, DisableIdentity: true,
	})
}

func openRedis(t testing.TB, topics ...string) redisBroker { //nolint:unparam // as the others
	t.Helper()
	testkit.Needs(t, "Redis")
	client := redisClient(&enginetest.Cable{})
	require.NoError(t, client.Ping(t.Context()).Err(), "Redis does not answer")
	t.Cleanup(func() {
		assert.NoError(t, client.Del(context.Background(), topics...).Err())
		assert.NoError(t, client.Close())
	})
	return redisBroker{}
}

func (redisBroker) dial(cable *enginetest.Cable, _ int) (message.Publisher, message.Subscriber, error) {
	client := redisClient(cable)
	publisher, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: client}, nil)
	if err != nil {
		return nil, nil, err
	}
	subscriber, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: client, ConsumerGroup: "workers", BlockTime: 20 * time.Millisecond, DisableIndefiniteInitialBlock: true,
		ClaimInterval: 500 * time.Millisecond, MaxIdleTime: 2 * time.Second,
	}, nil)
	return publisher, subscriber, err
}

// sqlBroker is a schema of PostgreSQL, which heeds Watermill's delays.
type sqlBroker struct{ schema string }

// open opens at most a number of connections.
func (b sqlBroker) open(cable *enginetest.Cable, most int) (*sql.DB, error) {
	config, err := pgx.ParseConfig(
		cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"))
	if err != nil {
		return nil, err
	}
	config.DialFunc = cable.DialContext
	config.RuntimeParams["search_path"] = b.schema
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(most)
	return db, nil
}

func openSQL(t testing.TB) sqlBroker {
	t.Helper()
	testkit.Needs(t, "PostgreSQL")
	b := sqlBroker{random("enginetest_")}
	db := testkit.Must(b.open(&enginetest.Cable{}, 1))(t)
	_, err := db.ExecContext(t.Context(), "CREATE SCHEMA "+b.schema)
	require.NoError(t, err, "PostgreSQL does not answer")
	t.Cleanup(func() {
		_, err := db.ExecContext(context.Background(), "DROP SCHEMA "+b.schema+" CASCADE")
		assert.NoError(t, err)
		assert.NoError(t, db.Close())
	})
	return b
}

func (b sqlBroker) dial(cable *enginetest.Cable, concurrency int) (message.Publisher, message.Subscriber, error) {
	db, err := b.open(cable, min(concurrency, 2)) // a message in progress has one
	if err != nil {
		return nil, nil, err
	}
	publisher, err := delayedSQL(db)
	if err != nil {
		return nil, nil, err
	}
	subscriber, err := delayedSubscriber(db)
	return inTx{publisher, db}, closing{subscriber, db}, err
}

func delayedSQL(db *sql.DB) (message.Publisher, error) {
	return wmsql.NewDelayedPostgreSQLPublisher(wmsql.BeginnerFromStdSQL(db), wmsql.DelayedPostgreSQLPublisherConfig{
		DelayPublisherConfig: delay.PublisherConfig{AllowNoDelay: true},
	})
}

func delayedSubscriber(db *sql.DB) (message.Subscriber, error) {
	return wmsql.NewDelayedPostgreSQLSubscriber(wmsql.BeginnerFromStdSQL(db), wmsql.DelayedPostgreSQLSubscriberConfig{
		DeleteOnAck: true, AllowNoDelay: true,
		OverrideSubscriberConfig: func(config *wmsql.SubscriberConfig) error {
			config.PollInterval, config.RetryInterval = 20*time.Millisecond, 20*time.Millisecond
			config.SchemaAdapter = wmsql.PostgreSQLQueueSchema{
				SubscribeBatchSize: 1, // when it is closed, the rest of a larger batch is lost
				GenerateWhereClause: func(wmsql.GenerateWhereClauseParams) (string, []any) {
					until := "(metadata->>'" + delay.DelayedUntilKey + "')::timestamptz"
					return "(" + until + " < NOW() OR " + until + " IS NULL)", nil
				},
			}
			return nil
		},
	})
}

// inTx publishes a copy in the transaction in which the subscriber has the message.
type inTx struct {
	message.Publisher

	db *sql.DB
}

// Close implements [message.Publisher].
func (p inTx) Close() error {
	err := p.Publisher.Close()
	return cmp.Or(err, p.db.Close())
}

// Publish implements [message.Publisher].
func (p inTx) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		publisher := p.Publisher
		if tx, ok := wmsql.TxFromContext(msg.Context()); ok {
			var err error
			publisher, err = wmsql.NewPublisher(tx, wmsql.PublisherConfig{SchemaAdapter: wmsql.PostgreSQLQueueSchema{}}, nil)
			if err != nil {
				return err
			}
		}
		if err := publisher.Publish(topic, msg); err != nil {
			return err
		}
	}
	return nil
}

// closing closes a database with its subscriber.
type closing struct {
	message.Subscriber

	db *sql.DB
}

// Close implements [message.Subscriber].
func (c closing) Close() error {
	err := c.Subscriber.Close()
	return cmp.Or(err, c.db.Close())
}
