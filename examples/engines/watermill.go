package main

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrywatermill"
)

func watermillRouter(ctx context.Context, _ string, p *retry.Policy, job work, over <-chan struct{}) error {
	broker := gochannel.NewGoChannel(gochannel.Config{}, nil)
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	if err != nil {
		return err
	}
	retries := &retrywatermill.Retries{Policy: p, Publisher: broker}
	router.AddMiddleware(retries.Middleware)
	router.AddConsumerHandler("import", "jobs", broker, func(msg *message.Message) error { return job(msg.Context()) })
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	<-router.Running()
	err = broker.Publish("jobs", message.NewMessage("import", nil))
	until(ctx, over)
	return errors.Join(err, retries.Close(ctx), router.Close(), <-ended)
}
