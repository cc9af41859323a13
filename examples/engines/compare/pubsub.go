package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypubsub"
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
