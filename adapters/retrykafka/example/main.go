// Example handles a record of Kafka under a policy, and prints what happens. Without
// -server, it starts kfake in this process, which stands for brokers:
//
//	go run . -server 127.0.0.1:9092
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykafka"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func main() {
	server := flag.String("server", "", "a Kafka broker; the topics retry-example and retry-example.dead are made, and deleted at the end")
	flag.Parse()
	if err := run(context.Background(), *server, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func policy(out io.Writer, over chan<- struct{}) *retry.Policy {
	return &retry.Policy{
		Name: "import", MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Second}, FreeRateLimits: 5,
		Observer: timeline(out, over),
	}
}

const name = "retry-example"

func run(ctx context.Context, address string, out io.Writer) (err error) {
	if address == "" {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			return err
		}
		defer cluster.Close()
		address = cluster.ListenAddrs()[0]
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := createTopics(ctx, client); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, deleteTopics(ctx, client)) }()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: name}).FirstErr(); err != nil {
		return err
	}
	return handle(ctx, address, out)
}

func handle(ctx context.Context, address string, out io.Writer) error {
	over, work := make(chan struct{}), job()
	retries := &retrykafka.Retries{Policy: policy(out, over), Options: []kgo.Opt{
		kgo.SeedBrokers(address), kgo.ConsumerGroup(name), kgo.ConsumeTopics(name),
	}}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		<-over
		stop()
	}()
	return retries.Run(ctx, func(ctx context.Context, _ *kgo.Record) error { return work(ctx) })
}

func createTopics(ctx context.Context, client *kgo.Client) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	for _, topic := range []string{name, name + ".dead"} {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, -1
		request.Topics = append(request.Topics, t)
	}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, t := range response.Topics {
		err = errors.Join(err, kerr.ErrorForCode(t.ErrorCode))
	}
	return err
}

func deleteTopics(ctx context.Context, client *kgo.Client) error {
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TopicNames = []string{name, name + ".dead"} // for old brokers
	for _, topic := range request.TopicNames {
		request.Topics = append(request.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &topic})
	}
	_, err := request.RequestWith(ctx, client)
	return err
}

// job fails three times, each time in another way, and then succeeds.
func job() func(context.Context) error {
	return retrytest.Script(
		errors.New("connection refused"),
		retry.MarkRateLimited(errors.New("429 Too Many Requests"), 2*time.Second),
		retry.MarkRetryable(errors.New("503 Service Unavailable")),
		nil,
	).Run
}

// timeline prints what happens, and closes over at the end.
func timeline(out io.Writer, over chan<- struct{}) retry.Observer {
	start := time.Now()
	return retry.ObserverFunc(func(_ context.Context, e retry.Event) {
		at := time.Since(start).Truncate(time.Second)
		if e.Kind == retry.Retrying {
			fmt.Fprintf(out, "%v: attempt %d: %v: again in %v\n", at, e.Attempt, e.Err, e.Delay.Truncate(time.Second))
			return
		}
		fmt.Fprintf(out, "%v: attempt %d: %v\n", at, e.Attempt, e.Kind)
		close(over)
	})
}
