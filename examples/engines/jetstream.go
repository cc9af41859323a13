package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryjetstream"
)

func jetStream(ctx context.Context, url string, p *retry.Policy, job work, over <-chan struct{}) error {
	if url == "" {
		embedded, stop, err := startNATS()
		if err != nil {
			return err
		}
		defer stop()
		url = embedded
	}
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	consumer, err := topology(ctx, js)
	if err != nil {
		return err
	}
	states, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "retries", TTL: 24 * time.Hour})
	if err != nil {
		return err
	}
	retries := &retryjetstream.Retries{Policy: p, JetStream: js, Consumer: consumer, States: states}
	var running sync.WaitGroup
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		running.Go(func() { logFailure(retries.Handle(ctx, msg, job)) })
	})
	if err != nil {
		return err
	}
	_, err = js.Publish(ctx, "jobs", nil)
	until(ctx, over)
	consuming.Drain()
	<-consuming.Closed()
	running.Wait()
	return err
}

// topology returns the consumer of a stream of jobs.
func topology(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: "jobs", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		return nil, err
	}
	return js.CreateOrUpdateConsumer(ctx, "jobs", jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy,
	})
}

// startNATS starts a server in this process.
func startNATS() (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "engines-")
	if err != nil {
		return "", nil, err
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err == nil {
		s.Start()
		if !s.ReadyForConnections(10 * time.Second) {
			s.Shutdown()
			err = errors.New("the embedded server does not start")
		}
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s.ClientURL(), func() {
		s.Shutdown()
		s.WaitForShutdown()
		logFailure(os.RemoveAll(dir))
	}, nil
}
