package retryjetstream_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryjetstream"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	states, err := q.js.KeyValue(t.Context(), q.name)
	require.NoError(t, err)
	tests := []struct {
		name   string
		config jetstream.ConsumerConfig
		want   string
	}{
		{
			"backoff",
			jetstream.ConsumerConfig{MaxDeliver: 5, BackOff: []time.Duration{time.Second, time.Minute}},
			"BackOff is [1s 1m0s]: must be empty, because it distorts the waits",
		},
		{
			"deliver",
			jetstream.ConsumerConfig{MaxDeliver: 5},
			"MaxDeliver is 5: must be -1, because the policy has the limit",
		},
		{"ack", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy}, "AckPolicy is AckNone: must be explicit"},
	}
	for _, test := range tests {
		test.config.Durable = test.name
		consumer, err := q.js.CreateConsumer(t.Context(), q.name, test.config)
		require.NoError(t, err)
		_, err = retryjetstream.New(q.js, consumer, states, nil)
		assert.EqualError(t, err, "retryjetstream: consumer "+test.name+": "+test.want)
	}
	_, err = retryjetstream.New(q.js, nil, states, nil)
	assert.EqualError(t, err, "retryjetstream: the JetStream, the consumer, or the bucket is nil")
	_, err = retryjetstream.New(q.js, nil, nil, &retry.Policy{MaxDelay: -time.Second})
	assert.ErrorContains(t, err, "-1s")
}

// Dead is called until it succeeds, and fn is not.
func TestDead(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	consumer, err := q.js.Consumer(t.Context(), q.name, "workers")
	require.NoError(t, err)
	states, err := q.js.KeyValue(t.Context(), q.name)
	require.NoError(t, err)
	retries, err := retryjetstream.New(q.js, consumer, states, &retry.Policy{MaxAttempts: 1})
	require.NoError(t, err)
	var dead, calls atomic.Int32
	retries.Dead = func(_ context.Context, msg jetstream.Msg, reason error) error {
		assert.Equal(t, "job-1", string(msg.Data()))
		assert.ErrorIs(t, reason, retry.ErrAttemptsExhausted)
		if dead.Add(1) == 1 {
			return errors.New("no room")
		}
		return nil
	}
	require.NoError(t, q.Submit(t.Context(), nil, "job-1"))
	for i := range 2 {
		msg, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
		require.NoError(t, err)
		err = retries.Handle(t.Context(), msg, func(context.Context) error {
			calls.Add(1)
			return assert.AnError
		})
		if i == 0 {
			assert.ErrorContains(t, err, "no room")
		} else {
			assert.NoError(t, err)
		}
	}
	assert.EqualValues(t, 2, dead.Load())
	assert.EqualValues(t, 1, calls.Load())
	assert.Eventually(t, func() bool {
		o, _ := q.Outcome(t.Context(), "job-1")
		return o.Err != ""
	}, 5*time.Second, time.Millisecond)
}
