package retrypubsub_test

import (
	"context"
	"log"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypubsub"
)

func ExampleRetries_Handle() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	client, err := pubsub.NewClient(ctx, "project")
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()
	retries := &retrypubsub.Retries{
		Subscription: "import", Publisher: client.Publisher("jobs"), Dead: client.Publisher("dead"),
		Policy: &retry.Policy{
			Name: "import", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 100,
		},
	}
	err = client.Subscriber("import").Receive(ctx, func(ctx context.Context, msg *pubsub.Message) {
		err := retries.Handle(ctx, msg, func(context.Context) error {
			return nil // an error is classified, and the message comes again when the policy says
		})
		if err != nil {
			log.Print(err)
		}
	})
	if err != nil {
		panic(err)
	}
}
