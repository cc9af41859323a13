package retrywatermill_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrywatermill"
)

func ExampleRetries_Middleware() {
	ctx := context.Background()
	broker := gochannel.NewGoChannel(gochannel.Config{}, nil) // or any other
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	if err != nil {
		panic(err)
	}
	policy := &retry.Policy{Name: "import", MaxAttempts: 8, Backoff: retry.Constant(0), FreeRateLimits: 100}

	retries := &retrywatermill.Retries{Policy: policy, Publisher: broker, Poison: "poison"}
	router.AddMiddleware(retries.Middleware)
	over, attempts := make(chan struct{}), 0
	router.AddConsumerHandler("import", "jobs", broker, func(*message.Message) error {
		attempts++
		fmt.Println("attempt", attempts)
		if attempts < 3 {
			return errors.New("connection refused") // classified, and the message comes again when the policy says
		}
		close(over)
		return nil
	})
	go func() {
		<-router.Running()
		if err := broker.Publish("jobs", message.NewMessage("id", nil)); err != nil {
			panic(err)
		}
		<-over // the example ends here
		fmt.Println(errors.Join(retries.Close(ctx), router.Close()))
	}()
	fmt.Println(router.Run(ctx))
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
	// <nil>
	// <nil>
}
