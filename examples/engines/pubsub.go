package main

import (
	"context"
	"errors"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypubsub"
)

func pubSub(ctx context.Context, address string, p *retry.Policy, job work, over <-chan struct{}) (err error) {
	if address == "" {
		server := pstest.NewServer()
		defer func() { err = errors.Join(err, server.Close()) }()
		address = server.Addr
	}
	client, err := pubsub.NewClient(ctx, "engines", option.WithEndpoint(address), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	const topic, subscription = "projects/engines/topics/jobs", "projects/engines/subscriptions/jobs"
	if _, err = client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil {
		return err
	}
	_, err = client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{Name: subscription, Topic: topic})
	if err != nil {
		return err
	}
	jobs := client.Publisher(topic)
	retries := &retrypubsub.Retries{Policy: p, Subscription: "import", Publisher: jobs, Dead: client.Publisher("dead")}
	if _, err = jobs.Publish(ctx, &pubsub.Message{Data: []byte("import")}).Get(ctx); err != nil {
		return err
	}
	receiving, stop := context.WithCancel(ctx)
	go func() {
		until(ctx, over)
		stop()
	}()
	return client.Subscriber(subscription).Receive(receiving, func(ctx context.Context, msg *pubsub.Message) {
		logFailure(retries.Handle(ctx, msg, job))
	})
}
