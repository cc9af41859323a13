package retrywatermill_test

import (
	"context"
	"log"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrywatermill"
)

func ExampleRetries_Middleware() { //nolint:testableexamples // it runs for ever
	ctx := context.Background()
	broker := gochannel.NewGoChannel(gochannel.Config{}, nil) // or any other
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	if err != nil {
		panic(err)
	}
	retries := &retrywatermill.Retries{Publisher: broker, Poison: "poison", Policy: &retry.Policy{
		Name: "import", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 100,
	}}
	router.AddMiddleware(retries.Middleware)
	router.AddConsumerHandler("import", "jobs", broker, func(*message.Message) error {
		return nil // an error is classified, and the message comes again when the policy says
	})
	go func() {
		<-ctx.Done()
		if err := retries.Close(context.WithoutCancel(ctx)); err != nil {
			log.Print(err)
		}
		_ = router.Close()
	}()
	if err := router.Run(context.WithoutCancel(ctx)); err != nil {
		log.Print(err)
	}
}
