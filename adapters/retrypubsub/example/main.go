// Example handles a message of Pub/Sub under a policy, and prints what happens. The server is
// the library's fake, in this process; for the service, leave the options out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypubsub"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	client, err := pubsub.NewClient(ctx, "example", option.WithEndpoint(pstest.NewServer().Addr),
		option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return err
	}
	const topic, subscription = "projects/example/topics/jobs", "projects/example/subscriptions/jobs"
	_, err = client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topic})
	_, subErr := client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{Name: subscription, Topic: topic})
	jobs, dead := client.Publisher(topic), client.Publisher("dead")
	_, pubErr := jobs.Publish(ctx, &pubsub.Message{Data: []byte("x")}).Get(ctx)
	if err := errors.Join(err, subErr, pubErr); err != nil {
		return err
	}
	receiving, stop := context.WithCancel(ctx)
	policy := &retry.Policy{Name: "import", MaxAttempts: 4, FreeRateLimits: 5, Observer: retry.ObserverFunc(
		func(_ context.Context, e retry.Event) {
			if fmt.Fprintf(out, "attempt %d: %v: %v, again in %v\n", e.Attempt, e.Kind, e.Err, e.Delay); e.Kind != retry.Retrying {
				stop()
			}
		})}
	retries := &retrypubsub.Retries{Policy: policy, Subscription: "import", Publisher: jobs, Dead: dead}
	work := retrytest.Script(errors.New("connection refused"),
		retry.MarkRateLimited(errors.New("429 Too Many Requests"), 2*time.Second),
		retry.MarkRetryable(errors.New("503 Service Unavailable")), nil).Run
	err = client.Subscriber(subscription).Receive(receiving, func(ctx context.Context, msg *pubsub.Message) {
		if err := retries.Handle(ctx, msg, work); err != nil {
			log.Print(err) // the message comes again
		}
	})
	return errors.Join(err, client.Close())
}
