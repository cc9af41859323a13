package retrypubsub_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypubsub"
)

// The server is the library's fake, in this process; for the service, leave the options out.
func ExampleRetries_Handle() {
	ctx, stop := context.WithCancel(context.Background())
	client, err := pubsub.NewClient(ctx, "example", option.WithEndpoint(pstest.NewServer().Addr),
		option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		panic(err)
	}
	const topic, subscription = "projects/example/topics/jobs", "projects/example/subscriptions/import"
	_, topicErr := client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topic})
	_, err = client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{Name: subscription, Topic: topic})
	jobs := client.Publisher(topic)
	_, jobErr := jobs.Publish(ctx, &pubsub.Message{Data: []byte("x")}).Get(ctx)
	if err := errors.Join(topicErr, err, jobErr); err != nil {
		panic(err)
	}

	subscriber, dead, attempts := client.Subscriber(subscription), client.Publisher("dead"), 0
	policy := &retry.Policy{
		Name: "import", MaxAttempts: 8, Backoff: retry.Constant(0), FreeRateLimits: 100,
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.Succeeded {
				stop() // the example ends here
			}
		}},
	}
	work := func(context.Context, []byte) error {
		attempts++
		fmt.Println("attempt", attempts)
		if attempts < 3 {
			return errors.New("connection refused") // classified, and the message comes again when the policy says
		}
		return nil
	}

	retries := &retrypubsub.Retries{Policy: policy, Subscription: "import", Publisher: jobs, Dead: dead}
	err = subscriber.Receive(ctx, func(ctx context.Context, msg *pubsub.Message) {
		err := retries.Handle(ctx, msg, func(ctx context.Context) error { return work(ctx, msg.Data) })
		if err != nil {
			log.Print(err) // the server could not be told, and the message comes again
		}
	})
	fmt.Println(err)
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
	// <nil>
}
