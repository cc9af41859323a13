package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryamqp"
	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
	"github.com/seed-5ff3c98e/retry/adapters/retryjetstream"
	"github.com/seed-5ff3c98e/retry/adapters/retryriver"
)

func engines() []*engine {
	return []*engine{
		{"River", "1 s, 16 s, 81 s, …; 25 attempts", "statements", openRiver},
		{"asynq", "15 to 45 s, 16 to 76 s, …; 25 retries", "commands", openAsynq},
		{"JetStream", "Nak: at once, for ever", "messages", openJetStream},
		{"RabbitMQ", "Nack: at once, for ever", "frames of methods", openAMQP},
		{"Redis Streams", "XAUTOCLAIM: after a second, for ever", "commands", openStreams},
		{"SQS", "the visibility timeout: after 30 s, for ever", "requests", openSQS},
		{"Watermill on NATS", "Nack: at once, for ever", "messages", openWatermill},
		{"Pub/Sub", "Nack: at once, for ever", "calls", openPubSub},
	}
}

func random(prefix string) string { return prefix + strings.ToLower(rand.Text()[:10]) }

// riverBed is a schema with River's tables.
type riverBed struct {
	schema string
	db     *pgxpool.Pool
	count  atomic.Int64
}

// TraceQueryStart implements [pgx.QueryTracer].
func (b *riverBed) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(q.SQL, "JobGetAvailable") { // which polls
		b.count.Add(1)
	}
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*riverBed) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func openRiver(ctx context.Context) (bed, error) {
	config, err := pgxpool.ParseConfig(
		cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"))
	if err != nil {
		return nil, err
	}
	b := &riverBed{schema: random("compare_")}
	config.ConnConfig.RuntimeParams["search_path"] = b.schema
	config.ConnConfig.Tracer = b
	if b.db, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if _, err := b.db.Exec(ctx, "CREATE SCHEMA "+b.schema); err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(b.db), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return b, err
}

type riverArgs struct{ Job string }

// Kind implements [river.JobArgs].
func (riverArgs) Kind() string { return "compare" }

func (b *riverBed) submit(ctx context.Context, jobs ...string) error {
	client, err := river.NewClient(riverpgxv5.New(b.db), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	var all []river.InsertManyParams
	for _, job := range jobs {
		all = append(all, river.InsertManyParams{Args: riverArgs{job}})
	}
	_, err = client.InsertMany(ctx, all)
	return err
}

// atOnce is a policy of River's kind.
type atOnce struct{}

// NextRetry implements [river.ClientRetryPolicy]. An instant that is over by the time
// that River compares it would be taken for a mistake.
func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(time.Millisecond) }

func (b *riverBed) start(p *retry.Policy, quick bool, handle handler) (func(), error) {
	config := &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: river.NewWorkers(),
		FetchCooldown: time.Millisecond, FetchPollInterval: 5 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
	}
	river.AddWorker(config.Workers, river.WorkFunc(func(ctx context.Context, job *river.Job[riverArgs]) error {
		return handle(ctx, job.Args.Job)
	}))
	switch {
	case p != nil:
		if err := (&retryriver.Retries{Policy: p}).Configure(config); err != nil {
			return nil, err
		}
	case quick:
		config.RetryPolicy = atOnce{}
	}
	client, err := river.NewClient(riverpgxv5.New(b.db), config)
	if err != nil {
		return nil, err
	}
	return func() { logFailure(client.StopAndCancel(context.Background())) }, client.Start(context.Background())
}

func (b *riverBed) sent() int64 { return b.count.Load() }

func (b *riverBed) close() error {
	_, err := b.db.Exec(context.Background(), "DROP SCHEMA "+b.schema+" CASCADE")
	b.db.Close()
	return err
}

// asynqBed is a queue of asynq.
type asynqBed struct {
	name   string
	client *asynq.Client
	count  atomic.Int64
}

func openAsynq(context.Context) (bed, error) {
	b := &asynqBed{name: random("compare-")}
	b.client = asynq.NewClient(b)
	return b, b.client.Ping()
}

// MakeRedisClient implements [asynq.RedisConnOpt].
func (b *asynqBed) MakeRedisClient() any {
	client := redis.NewClient(&redis.Options{
		Addr: cmp.Or(os.Getenv("RETRY_TEST_REDIS"), "127.0.0.1:6379"), DB: 13, DisableIdentity: true,
	})
	client.AddHook(b)
	return client
}

// DialHook implements [redis.Hook].
func (b *asynqBed) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (b *asynqBed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [redis.Hook]. Polls are in scripts, as the work is, and are
// told apart by their keys.
func (b *asynqBed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if name := cmd.Name(); name == "get" || name == "set" || name == "del" || name == "evalsha" && err == nil {
			b.count.Add(1)
		}
		return err
	}
}

func (b *asynqBed) submit(ctx context.Context, jobs ...string) error {
	for _, job := range jobs {
		_, err := b.client.EnqueueContext(ctx, asynq.NewTask("compare", []byte(job)), asynq.Queue(b.name), asynq.TaskID(job),
			retryasynq.MaxRetry())
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *asynqBed) start(p *retry.Policy, quick bool, handle handler) (func(), error) {
	config := asynq.Config{
		Concurrency: 10, Queues: map[string]int{b.name: 1}, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 5 * time.Millisecond, DelayedTaskCheckInterval: 20 * time.Millisecond,
	}
	h := asynq.Handler(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		return handle(ctx, string(task.Payload()))
	}))
	done := func() {}
	switch {
	case p != nil:
		connection, ok := b.MakeRedisClient().(redis.UniversalClient)
		if !ok {
			return nil, errors.New("not a redis.UniversalClient")
		}
		retries := &retryasynq.Retries{Policy: p, Redis: connection}
		if err := retries.Configure(&config); err != nil {
			return nil, err
		}
		h, done = retries.Handler(h), func() { logFailure(connection.Close()) }
	case quick:
		config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	}
	server := asynq.NewServer(b, config)
	return func() {
		server.Shutdown()
		done()
	}, server.Start(h)
}

func (b *asynqBed) sent() int64 { return b.count.Load() }

func (b *asynqBed) close() error {
	inspector := asynq.NewInspector(b)
	return errors.Join(inspector.DeleteQueue(b.name, true), inspector.Close(), b.client.Close())
}

// natsBed is a stream with a consumer.
type natsBed struct {
	name string
	conn *nats.Conn
	js   jetstream.JetStream
}

func openJetStream(ctx context.Context) (bed, error) {
	conn, err := nats.Connect(cmp.Or(os.Getenv("RETRY_TEST_NATS"), nats.DefaultURL))
	if err != nil {
		return nil, err
	}
	b := &natsBed{name: random("compare-"), conn: conn}
	if b.js, err = jetstream.New(conn); err != nil {
		return nil, err
	}
	_, err = b.js.CreateStream(ctx, jetstream.StreamConfig{Name: b.name, Subjects: []string{b.name + ".jobs"}})
	if err != nil {
		return nil, err
	}
	_, err = b.js.CreateConsumer(ctx, b.name, jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return nil, err
	}
	_, err = b.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: b.name})
	return b, err
}

func (b *natsBed) submit(ctx context.Context, jobs ...string) error {
	for _, job := range jobs {
		if _, err := b.js.Publish(ctx, b.name+".jobs", []byte(job)); err != nil {
			return err
		}
	}
	return nil
}

func (b *natsBed) start(p *retry.Policy, _ bool, handle handler) (func(), error) {
	ctx := context.Background()
	consumer, err := b.js.Consumer(ctx, b.name, "workers")
	if err != nil {
		return nil, err
	}
	one := func(msg jetstream.Msg) error {
		if handle(ctx, string(msg.Data())) != nil {
			return msg.Nak()
		}
		return msg.DoubleAck(ctx)
	}
	if p != nil {
		states, err := b.js.KeyValue(ctx, b.name)
		if err != nil {
			return nil, err
		}
		retries := &retryjetstream.Retries{Policy: p, JetStream: b.js, Consumer: consumer, States: states}
		one = func(msg jetstream.Msg) error {
			return retries.Handle(ctx, msg, func(ctx context.Context) error { return handle(ctx, string(msg.Data())) })
		}
	}
	var running sync.WaitGroup
	consuming, err := consumer.Consume(func(msg jetstream.Msg) { running.Go(func() { logFailure(one(msg)) }) },
		jetstream.PullMaxMessages(10))
	return func() {
		consuming.Stop()
		<-consuming.Closed()
		running.Wait()
	}, err
}

func (b *natsBed) sent() int64 { return int64(b.conn.Stats().OutMsgs) } //nolint:gosec // small

func (b *natsBed) close() error {
	ctx := context.Background()
	err := errors.Join(b.js.DeleteStream(ctx, b.name), b.js.DeleteKeyValue(ctx, b.name))
	b.conn.Close()
	return err
}

// amqpBed is a queue of RabbitMQ.
type amqpBed struct {
	name    string
	conn    *amqp.Connection
	channel *amqp.Channel
	count   atomic.Int64
}

// methods counts the frames with methods that are written. The client writes whole
// frames, one or more at a time.
type methods struct {
	net.Conn

	count *atomic.Int64
}

// Write implements [net.Conn].
func (m methods) Write(b []byte) (int, error) {
	const header, end = 7, 1
	for rest := b; len(rest) >= header; {
		if rest[0] == 1 {
			m.count.Add(1)
		}
		size := int(rest[3])<<24 | int(rest[4])<<16 | int(rest[5])<<8 | int(rest[6])
		rest = rest[min(header+size+end, len(rest)):]
	}
	return m.Conn.Write(b)
}

func openAMQP(context.Context) (bed, error) {
	b := &amqpBed{name: random("compare-")}
	var err error
	b.conn, err = amqp.DialConfig(cmp.Or(os.Getenv("RETRY_TEST_AMQP"), "amqp://guest:guest@127.0.0.1:5672/"), amqp.Config{
		Heartbeat: 10 * time.Second,
		Dial: func(network, address string) (net.Conn, error) {
			conn, err := amqp.DefaultDial(10*time.Second)(network, address)
			return methods{conn, &b.count}, err
		},
	})
	if err != nil {
		return nil, err
	}
	if b.channel, err = b.conn.Channel(); err != nil {
		return nil, err
	}
	_, err = b.channel.QueueDeclare(b.name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	if err == nil {
		err = b.channel.Qos(10, 0, false)
	}
	return b, err
}

func (b *amqpBed) submit(ctx context.Context, jobs ...string) error {
	for _, job := range jobs {
		err := b.channel.PublishWithContext(ctx, "", b.name, true, false, amqp.Publishing{
			Body: []byte(job), DeliveryMode: amqp.Persistent,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *amqpBed) start(p *retry.Policy, _ bool, handle handler) (func(), error) {
	ctx := context.Background()
	one := func(msg amqp.Delivery) error {
		if handle(ctx, string(msg.Body)) != nil {
			return msg.Nack(false, true)
		}
		return msg.Ack(false)
	}
	if p != nil {
		retries := &retryamqp.Retries{Policy: p, Conn: b.conn, Queue: b.name}
		one = func(msg amqp.Delivery) error {
			return retries.Handle(ctx, msg, func(ctx context.Context) error { return handle(ctx, string(msg.Body)) })
		}
	}
	deliveries, err := b.channel.Consume(b.name, "worker", false, false, false, false, nil)
	var running sync.WaitGroup
	running.Go(func() {
		for msg := range deliveries {
			running.Go(func() { logFailure(one(msg)) })
		}
	})
	return func() {
		logFailure(b.channel.Cancel("worker", false))
		running.Wait()
	}, err
}

func (b *amqpBed) sent() int64 { return b.count.Load() }

func (b *amqpBed) close() error {
	_, err := b.channel.QueueDelete(b.name, false, false, false)
	_, deadErr := b.channel.QueueDelete(b.name+".dead", false, false, false)
	return errors.Join(err, deadErr, b.conn.Close())
}

// logFailure is for failures that an engine has no place for.
func logFailure(err error) {
	if err != nil {
		slog.Error("compare", "error", err)
	}
}
