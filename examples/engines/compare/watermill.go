package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrywatermill"
)

// watermillBed is a topic of Watermill on JetStream.
type watermillBed struct {
	topic string
	conn  *nats.Conn
	js    nats.JetStreamContext
}

func openWatermill(context.Context) (bed, error) {
	conn, err := nats.Connect(cmp.Or(os.Getenv("RETRY_TEST_NATS"), nats.DefaultURL))
	if err != nil {
		return nil, err
	}
	b := &watermillBed{topic: random("compare-"), conn: conn}
	if b.js, err = conn.JetStream(); err != nil {
		return nil, err
	}
	_, err = b.js.AddStream(&nats.StreamConfig{Name: b.topic, Subjects: []string{b.topic, b.topic + "_poison"}})
	if err != nil {
		return nil, err
	}
	_, err = b.js.AddConsumer(b.topic, &nats.ConsumerConfig{
		Durable: "workers", FilterSubject: b.topic, DeliverSubject: nats.NewInbox(), DeliverGroup: "workers",
		AckPolicy: nats.AckExplicitPolicy, MaxAckPending: 10,
	})
	return b, err
}

func (b *watermillBed) publisher() (message.Publisher, error) {
	return wmnats.NewPublisherWithNatsConn(b.conn, wmnats.PublisherPublishConfig{
		Marshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator,
	}, nil)
}

func (b *watermillBed) submit(_ context.Context, jobs ...string) error {
	publisher, err := b.publisher()
	for _, job := range jobs {
		err = errors.Join(err, publisher.Publish(b.topic, message.NewMessage(job, []byte(job))))
	}
	return err
}

func (b *watermillBed) start(p *retry.Policy, _ bool, handle handler) (func(), error) {
	publisher, err := b.publisher()
	if err != nil {
		return nil, err
	}
	subscriber, err := wmnats.NewSubscriberWithNatsConn(b.conn, wmnats.SubscriberSubscriptionConfig{
		SubscribersCount: 10, QueueGroupPrefix: "workers",
		JetStream: wmnats.JetStreamConfig{DurablePrefix: "workers", SubscribeOptions: []nats.SubOpt{nats.ManualAck()}},
	}, nil)
	if err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: time.Second}, nil)
	if err != nil {
		return nil, err
	}
	retries := &retrywatermill.Retries{Policy: p, Publisher: publisher}
	if p != nil {
		router.AddMiddleware(retries.Middleware)
	}
	router.AddConsumerHandler("compare", b.topic, staying{subscriber}, func(msg *message.Message) error {
		return handle(msg.Context(), string(msg.Payload))
	})
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	<-router.Running()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		logFailure(errors.Join(retries.Close(ctx), router.Close(), <-ended))
	}, nil
}

// staying is a subscriber that keeps its connection, which is the bed's.
type staying struct{ message.Subscriber }

// Close implements [message.Subscriber].
func (staying) Close() error { return nil }

func (b *watermillBed) sent() int64 { return int64(b.conn.Stats().OutMsgs) } //nolint:gosec // small

func (b *watermillBed) close() error {
	err := b.js.DeleteStream(b.topic)
	if err != nil && strings.Contains(err.Error(), "not found") {
		err = nil
	}
	b.conn.Close()
	return err
}
