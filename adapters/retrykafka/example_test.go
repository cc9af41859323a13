package retrykafka_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykafka"
)

func Example() {
	cluster, err := kfake.NewCluster(kfake.SeedTopics(1, "jobs", "jobs.dead")) // stands for your brokers
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	policy := &retry.Policy{
		Backoff: retry.Constant(10 * time.Millisecond), Jitter: retry.NoJitter,
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			fmt.Println("attempt", e.Attempt, e.Kind, e.Err)
			if e.Kind != retry.Retrying {
				cancel()
			}
		}},
	}

	brokers, calls := cluster.ListenAddrs(), 0
	work := func(_ context.Context, value []byte) error {
		calls++
		if calls < 3 {
			return errors.New("503 Service Unavailable")
		}
		fmt.Printf("handled %s\n", value)
		return nil
	}
	go send(ctx, cluster)

	retries := &retrykafka.Retries{Policy: policy, Options: []kgo.Opt{
		kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"),
	}}
	err = retries.Run(ctx, func(ctx context.Context, r *kgo.Record) error { return work(ctx, r.Value) })
	fmt.Println("stopped:", err)
	// Output:
	// attempt 1 retrying 503 Service Unavailable
	// attempt 2 retrying 503 Service Unavailable
	// handled job 1
	// attempt 3 succeeded <nil>
	// stopped: <nil>
}

func send(ctx context.Context, cluster *kfake.Cluster) {
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "jobs", Value: []byte("job 1")}).FirstErr(); err != nil {
		panic(err)
	}
}
