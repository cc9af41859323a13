package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypubsub"
	"github.com/seed-5ff3c98e/retry/adapters/retrysqs"
	"github.com/seed-5ff3c98e/retry/adapters/retrystreams"
	"github.com/seed-5ff3c98e/retry/adapters/retrywatermill"
)

// pubSubBed is a topic with a subscription of the library's fake server.
type pubSubBed struct {
	server *pstest.Server
	client *pubsub.Client
	jobs   *pubsub.Publisher
	dead   *pubsub.Publisher
	count  atomic.Int64
}

func openPubSub(ctx context.Context) (bed, error) {
	b := &pubSubBed{server: pstest.NewServer()}
	counting := func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		b.count.Add(1)
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	var err error
	b.client, err = pubsub.NewClient(ctx, "compare", option.WithEndpoint(b.server.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(counting)))
	if err != nil {
		return nil, err
	}
	const prefix = "projects/compare/"
	for _, name := range []string{"jobs", "dead"} {
		_, err = b.client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: prefix + "topics/" + name})
		if err != nil {
			return nil, err
		}
	}
	_, err = b.client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: prefix + "subscriptions/jobs", Topic: prefix + "topics/jobs",
	})
	b.jobs, b.dead = b.client.Publisher("jobs"), b.client.Publisher("dead")
	return b, err
}

func (b *pubSubBed) submit(ctx context.Context, jobs ...string) error {
	for _, job := range jobs {
		if _, err := b.jobs.Publish(ctx, &pubsub.Message{Data: []byte(job)}).Get(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *pubSubBed) start(p *retry.Policy, _ bool, handle handler) (func(), error) {
	one := func(ctx context.Context, msg *pubsub.Message) {
		if handle(ctx, string(msg.Data)) != nil {
			msg.Nack()
			return
		}
		msg.Ack()
	}
	if p != nil {
		retries := &retrypubsub.Retries{Policy: p, Subscription: "jobs", Publisher: b.jobs, Dead: b.dead}
		one = func(ctx context.Context, msg *pubsub.Message) {
			logFailure(retries.Handle(ctx, msg, func(ctx context.Context) error { return handle(ctx, string(msg.Data)) }))
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	subscriber := b.client.Subscriber("jobs")
	subscriber.ReceiveSettings.ShutdownOptions = &pubsub.ShutdownOptions{Timeout: 5 * time.Second, Behavior: pubsub.ShutdownBehaviorWaitForProcessing}
	var receiving sync.WaitGroup
	receiving.Go(func() { logFailure(subscriber.Receive(ctx, one)) })
	return func() {
		stop()
		receiving.Wait()
	}, nil
}

func (b *pubSubBed) sent() int64 { return b.count.Load() }

func (b *pubSubBed) close() error { return errors.Join(b.client.Close(), b.server.Close()) }

// sqsBed is a queue of an emulator of SQS, and one for dead letters.
type sqsBed struct {
	client    *sqs.Client
	url, dead string
	count     atomic.Int64
}

func openSQS(ctx context.Context) (bed, error) {
	b := &sqsBed{}
	b.client = sqs.New(sqs.Options{
		BaseEndpoint: new(cmp.Or(os.Getenv("RETRY_TEST_SQS"), "http://127.0.0.1:4566")), Region: "us-east-1",
		Credentials: aws.AnonymousCredentials{}, HTTPClient: &http.Client{Transport: b},
	})
	name := random("compare-")
	for _, queue := range []struct {
		name string
		url  *string
	}{{name, &b.url}, {name + "-dead", &b.dead}} {
		made, err := b.client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &queue.name})
		if err != nil {
			return nil, err
		}
		*queue.url = *made.QueueUrl
	}
	return b, nil
}

// RoundTrip implements [http.RoundTripper]. It does not count receives that find nothing.
func (b *sqsBed) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	empty := err == nil && strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".ReceiveMessage") && resp.ContentLength <= int64(len("{}"))
	if !empty {
		b.count.Add(1)
	}
	return resp, err
}

func (b *sqsBed) submit(ctx context.Context, jobs ...string) error {
	for _, job := range jobs {
		if _, err := b.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &b.url, MessageBody: &job}); err != nil {
			return err
		}
	}
	return nil
}

func (b *sqsBed) start(p *retry.Policy, quick bool, handle handler) (func(), error) {
	const workers = 10
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	if p != nil {
		retries := &retrysqs.Retries{Policy: p, Client: b.client, QueueURL: b.url, Dead: b.dead, Concurrency: workers}
		running.Go(func() {
			logFailure(retries.Run(ctx, func(ctx context.Context, msg types.Message) error { return handle(ctx, *msg.Body) }))
		})
	} else {
		for range workers {
			running.Go(func() {
				for ctx.Err() == nil {
					logFailure(b.own(ctx, quick, handle))
				}
			})
		}
	}
	return func() {
		cancel()
		running.Wait()
	}, nil
}

// own handles a message. One that fails comes again after the visibility timeout of the queue,
// or at once if quick.
func (b *sqsBed) own(ctx context.Context, quick bool, handle handler) error {
	ctx = context.WithoutCancel(ctx)
	received, err := b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &b.url, WaitTimeSeconds: 1})
	if err != nil {
		return err
	}
	for _, msg := range received.Messages {
		switch err = handle(ctx, *msg.Body); {
		case err == nil:
			_, err = b.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &b.url, ReceiptHandle: msg.ReceiptHandle})
		case quick:
			_, err = b.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: &b.url, ReceiptHandle: msg.ReceiptHandle})
		default:
			err = nil
		}
	}
	return err
}

func (b *sqsBed) sent() int64 { return b.count.Load() }

func (b *sqsBed) close() (err error) {
	for _, url := range []string{b.url, b.dead} {
		_, failure := b.client.DeleteQueue(context.Background(), &sqs.DeleteQueueInput{QueueUrl: &url})
		err = errors.Join(err, failure)
	}
	return err
}

// streamsBed is a stream of Redis with one group.
type streamsBed struct {
	name   string
	client *redis.Client
	count  atomic.Int64
}

func openStreams(ctx context.Context) (bed, error) {
	b := &streamsBed{name: random("compare-")}
	b.client = redis.NewClient(&redis.Options{
		Addr: cmp.Or(os.Getenv("RETRY_TEST_REDIS"), "127.0.0.1:6379"), DB: 13, DisableIdentity: true, PoolSize: 30,
	})
	b.client.AddHook(b)
	return b, b.client.XGroupCreateMkStream(ctx, b.name, "workers", "0").Err()
}

// DialHook implements [redis.Hook].
func (b *streamsBed) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (b *streamsBed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [redis.Hook]. It does not count polls that find nothing.
func (b *streamsBed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		found := err == nil
		switch cmd := cmd.(type) {
		case *redis.XAutoClaimCmd:
			messages, _ := cmd.Val()
			found = len(messages) > 0
		case *redis.Cmd: // a script, which returns a message, or 1 if it has done something
			_, message := cmd.Val().([]any)
			found = message || cmd.Val() == int64(1)
		}
		if found {
			b.count.Add(1)
		}
		return err
	}
}

func (b *streamsBed) submit(ctx context.Context, jobs ...string) error {
	for _, job := range jobs {
		if err := b.client.XAdd(ctx, &redis.XAddArgs{Stream: b.name, Values: []string{"job", job}}).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (b *streamsBed) start(p *retry.Policy, quick bool, handle handler) (func(), error) {
	const workers = 10
	ctx, cancel := context.WithCancel(context.Background())
	one := func(ctx context.Context, msg redis.XMessage) error {
		return handle(ctx, msg.Values["job"].(string)) //nolint:forcetypeassert // see submit
	}
	var running sync.WaitGroup
	if p != nil {
		retries := &retrystreams.Retries{
			Policy: p, Redis: b.client, Stream: b.name, Group: "workers", Consumer: "ours", Concurrency: workers,
		}
		running.Go(func() { logFailure(retries.Run(ctx, one)) })
	} else {
		idle := time.Second
		if quick {
			idle = time.Millisecond
		}
		for range workers {
			running.Go(func() {
				for ctx.Err() == nil {
					logFailure(b.own(idle, func(msg redis.XMessage) error { return one(ctx, msg) }))
				}
			})
		}
	}
	return func() {
		cancel()
		running.Wait()
	}, nil
}

// own handles a message that has failed before, or else a new one.
func (b *streamsBed) own(idle time.Duration, handle func(redis.XMessage) error) error {
	ctx := context.Background()
	messages, _, err := b.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: b.name, Group: "workers", Consumer: "own", MinIdle: idle, Start: "0", Count: 1,
	}).Result()
	if err == nil && len(messages) == 0 {
		var streams []redis.XStream
		streams, err = b.client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "workers", Consumer: "own", Streams: []string{b.name, ">"}, Count: 1, Block: idle,
		}).Result()
		if err == nil {
			messages = streams[0].Messages
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for _, msg := range messages {
		if handle(msg) == nil {
			return b.client.XAck(ctx, b.name, "workers", msg.ID).Err()
		}
	}
	return nil
}

func (b *streamsBed) sent() int64 { return b.count.Load() }

func (b *streamsBed) close() error {
	prefix := "{" + b.name + "}:workers:"
	err := b.client.Del(context.Background(), b.name, prefix+"retry", prefix+"due", prefix+"dead").Err()
	return errors.Join(err, b.client.Close())
}

// watermillBed is a topic of Watermill on JetStream.
type watermillBed struct {
	topic string
	conn  *nats.Conn
	js    nats.JetStreamContext
}

func openWatermill(context.Context) (bed, error) {
	conn, err := nats.Connect(cmp.Or(os.Getenv("RETRY_TEST_NATS"), nats.DefaultURL))
	if err != nil {
		return nil, err
	}
	b := &watermillBed{topic: random("compare-"), conn: conn}
	if b.js, err = conn.JetStream(); err != nil {
		return nil, err
	}
	_, err = b.js.AddStream(&nats.StreamConfig{Name: b.topic, Subjects: []string{b.topic, b.topic + "_poison"}})
	if err != nil {
		return nil, err
	}
	_, err = b.js.AddConsumer(b.topic, &nats.ConsumerConfig{
		Durable: "workers", FilterSubject: b.topic, DeliverSubject: nats.NewInbox(), DeliverGroup: "workers",
		AckPolicy: nats.AckExplicitPolicy, MaxAckPending: 10,
	})
	return b, err
}

func (b *watermillBed) publisher() (message.Publisher, error) {
	return wmnats.NewPublisherWithNatsConn(b.conn, wmnats.PublisherPublishConfig{
		Marshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator,
	}, nil)
}

func (b *watermillBed) submit(_ context.Context, jobs ...string) error {
	publisher, err := b.publisher()
	for _, job := range jobs {
		err = errors.Join(err, publisher.Publish(b.topic, message.NewMessage(job, []byte(job))))
	}
	return err
}

func (b *watermillBed) start(p *retry.Policy, _ bool, handle handler) (func(), error) {
	publisher, err := b.publisher()
	if err != nil {
		return nil, err
	}
	subscriber, err := wmnats.NewSubscriberWithNatsConn(b.conn, wmnats.SubscriberSubscriptionConfig{
		SubscribersCount: 10, QueueGroupPrefix: "workers",
		JetStream: wmnats.JetStreamConfig{DurablePrefix: "workers", SubscribeOptions: []nats.SubOpt{nats.ManualAck()}},
	}, nil)
	if err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: time.Second}, nil)
	if err != nil {
		return nil, err
	}
	retries := &retrywatermill.Retries{Policy: p, Publisher: publisher}
	if p != nil {
		router.AddMiddleware(retries.Middleware)
	}
	router.AddConsumerHandler("compare", b.topic, staying{subscriber}, func(msg *message.Message) error {
		return handle(msg.Context(), string(msg.Payload))
	})
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	<-router.Running()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		logFailure(errors.Join(retries.Close(ctx), router.Close(), <-ended))
	}, nil
}

// staying is a subscriber that keeps its connection, which is the bed's.
type staying struct{ message.Subscriber }

// Close implements [message.Subscriber].
func (staying) Close() error { return nil }

func (b *watermillBed) sent() int64 { return int64(b.conn.Stats().OutMsgs) } //nolint:gosec // small

func (b *watermillBed) close() error {
	err := b.js.DeleteStream(b.topic)
	if err != nil && strings.Contains(err.Error(), "not found") {
		err = nil
	}
	b.conn.Close()
	return err
}
