package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryamqp"
)

func amqpQueue(ctx context.Context, url string, p *retry.Policy, job work, over <-chan struct{}) (err error) {
	conn, err := amqp.Dial(cmp.Or(url, "amqp://guest:guest@127.0.0.1:5672/"))
	if err != nil {
		return err
	}
	defer func() { logFailure(conn.Close()) }()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	queue := "engines-" + strings.ToLower(rand.Text()[:10])
	if _, err := channel.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	defer func() {
		for _, name := range []string{queue, queue + ".dead"} {
			_, deleteErr := channel.QueueDelete(name, false, false, false)
			err = errors.Join(err, deleteErr)
		}
	}()
	retries := &retryamqp.Retries{Policy: p, Conn: conn, Queue: queue}
	if err := channel.Qos(1, 0, false); err != nil {
		return err
	}
	messages, err := channel.Consume(queue, "worker", false, false, false, false, nil)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() {
		for msg := range messages {
			logFailure(retries.Handle(ctx, msg, job))
		}
	})
	err = channel.PublishWithContext(ctx, "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
	until(ctx, over)
	err = errors.Join(err, channel.Cancel("worker", false))
	running.Wait()
	return err
}
