package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykafka"
)

func kafka(ctx context.Context, server string, p *retry.Policy, job work, over <-chan struct{}) (err error) {
	if server == "" {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			return err
		}
		defer cluster.Close()
		server = cluster.ListenAddrs()[0]
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(server))
	if err != nil {
		return err
	}
	defer producer.Close()
	topic := "engines-" + strings.ToLower(rand.Text()[:10]) // deleted at the end
	if err := createTopics(ctx, producer, topic, topic+".dead"); err != nil {
		return err
	}
	defer func() {
		request := kmsg.NewPtrDeleteTopicsRequest()
		request.TopicNames = []string{topic, topic + ".dead"}
		for _, name := range request.TopicNames {
			request.Topics = append(request.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
		}
		_, deleteErr := request.RequestWith(context.WithoutCancel(ctx), producer)
		err = errors.Join(err, deleteErr)
	}()
	retries := &retrykafka.Retries{Policy: p, Options: []kgo.Opt{
		kgo.SeedBrokers(server), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
	}}
	if err := producer.ProduceSync(ctx, &kgo.Record{Topic: topic}).FirstErr(); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		until(ctx, over)
		stop()
	}()
	return retries.Run(running, func(ctx context.Context, _ *kgo.Record) error { return job(ctx) })
}

func createTopics(ctx context.Context, client *kgo.Client, names ...string) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, -1
		request.Topics = append(request.Topics, topic)
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
