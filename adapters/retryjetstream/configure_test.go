package retryjetstream_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryjetstream"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestRefuses(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	retries := retriesOf(t, q, &retry.Policy{MaxDelay: -time.Second})
	msg := next(t, retries)
	require.ErrorContains(t, retries.Handle(t.Context(), msg, unexpected(t)), "-1s")
	for _, test := range []struct {
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
	} {
		test.config.Durable = test.name
		consumer, err := q.js.CreateConsumer(t.Context(), q.name, test.config)
		require.NoError(t, err)
		retries := retriesOf(t, q, nil)
		retries.Consumer = consumer
		for range 2 {
			err = retries.Handle(t.Context(), msg, unexpected(t))
			assert.EqualError(t, err, "retryjetstream: consumer "+test.name+": "+test.want)
		}
	}
	retries = retriesOf(t, q, nil)
	retries.Consumer = nil
	assert.EqualError(t, retries.Handle(t.Context(), msg, unexpected(t)),
		"retryjetstream: the JetStream, the Consumer, or States is nil")
}

func unexpected(t *testing.T) func(context.Context) error {
	t.Helper()
	return func(context.Context) error {
		assert.Fail(t, "the message is run")
		return nil
	}
}

// retriesOf returns Retries for the consumer of a queue.
func retriesOf(t *testing.T, q *queue, p *retry.Policy) *retryjetstream.Retries {
	t.Helper()
	consumer := testkit.Must(q.js.Consumer(t.Context(), q.name, "workers"))(t)
	states := testkit.Must(q.js.KeyValue(t.Context(), q.name))(t)
	return &retryjetstream.Retries{Policy: p, JetStream: q.js, Consumer: consumer, States: states}
}

// next takes the next message.
func next(t *testing.T, r *retryjetstream.Retries) jetstream.Msg {
	t.Helper()
	return testkit.Must(r.Consumer.Next(jetstream.FetchMaxWait(10 * time.Second)))(t)
}

// Dead is called until it succeeds, and fn is not, whatever has ended the message.
func TestDead(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	long := errors.New(strings.Repeat("x", 2<<20)) // more than the server's max_payload
	for _, test := range []struct {
		job    string
		policy retry.Policy
		err    error
	}{
		{"exhausted", retry.Policy{MaxAttempts: 1}, assert.AnError},
		{"final", retry.Policy{}, retry.MarkFinal(assert.AnError)},
		{"maybe applied", retry.Policy{NonIdempotent: true}, assert.AnError},
		{"long", retry.Policy{MaxAttempts: 1}, long},
	} {
		retries := retriesOf(t, q, &test.policy)
		var dead []string
		retries.Dead = func(_ context.Context, msg jetstream.Msg, reason error) error {
			assert.Equal(t, test.job, string(msg.Data()))
			switch dead = append(dead, reason.Error()); len(dead) {
			case 1:
				return errors.New("no room")
			case 2:
				panic("no room")
			default:
				return nil
			}
		}
		require.NoError(t, q.Submit(t.Context(), "kind-1", test.job))
		calls := 0
		for err := errors.New("no room"); err != nil; {
			err = retries.Handle(t.Context(), next(t, retries), func(context.Context) error {
				calls++
				return test.err
			})
			if err != nil {
				require.ErrorContains(t, err, "no room")
			}
		}
		assert.Equal(t, 1, calls, test.job)
		assert.Len(t, dead, 3, test.job)
		assert.Len(t, slices.Compact(dead[1:]), 1, test.job)
		assert.Contains(t, dead[0], test.err.Error(), test.job)
		assert.True(t, strings.HasPrefix(dead[0], dead[1]), test.job)
		assert.NotEmpty(t, enginekit.Await(t, q, test.job).Err, test.job)
	}
}

// The names of streams and consumers may have what keys may not.
func TestNames(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	consumer := testkit.Must(q.js.CreateConsumer(t.Context(), q.name, jetstream.ConsumerConfig{
		Durable: "jobs:hoch~1=%ü", AckPolicy: jetstream.AckExplicitPolicy,
	}))(t)
	retries := retriesOf(t, q, &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)})
	retries.Consumer = consumer
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	for i := range 3 {
		require.NoError(t, retries.Handle(t.Context(), next(t, retries), func(context.Context) error {
			if i < 2 {
				return assert.AnError
			}
			return nil
		}))
	}
}

// A message that takes too long each time ends. A context that is canceled before an
// attempt costs none.
func TestDeadline(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	events := &retrytest.Recorder{}
	retries := retriesOf(t, q, &retry.Policy{
		MaxAttempts: 2, Backoff: retry.Constant(0), Observer: events.Observer(),
	})
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	enginekit.Deadline(t, events, func() func(context.Context, func(context.Context) error) error {
		msg := next(t, retries)
		return func(ctx context.Context, fn func(context.Context) error) error { return retries.Handle(ctx, msg, fn) }
	})
}

// A State that cannot be read ends the message, and says so.
func TestUnreadableState(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	retries := retriesOf(t, q, &retry.Policy{Backoff: retry.Constant(0)})
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	for i := range 2 {
		require.NoError(t, retries.Handle(t.Context(), next(t, retries), func(context.Context) error {
			require.Zero(t, i)
			return assert.AnError
		}))
		keys, err := retries.States.Keys(t.Context())
		if i > 0 {
			require.ErrorIs(t, err, jetstream.ErrNoKeysFound)
			break
		}
		require.NoError(t, err)
		testkit.Must(retries.States.PutString(t.Context(), keys[0], "?"))(t)
	}
	assert.Contains(t, enginekit.Await(t, q, "job-1").Err, "the State of "+q.name+".workers.1: invalid character")
}

// Deliveries that no Handle has seen cost no attempt, but the first: it may have begun.
func TestUnseenDeliveries(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	events := &retrytest.Recorder{}
	retries := retriesOf(t, q, &retry.Policy{
		MaxAttempts: 3, Backoff: retry.Constant(0), Observer: events.Observer(),
	})
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	unseen := func() {
		for range 5 {
			require.NoError(t, next(t, retries).Nak())
		}
	}
	for range 2 {
		unseen()
		require.NoError(t, retries.Handle(t.Context(), next(t, retries), func(context.Context) error { return assert.AnError }))
	}
	events.Expect(t, "2: "+assert.AnError.Error()+": retry in 0s", "3: gave up (attempts): "+assert.AnError.Error())
}

// silent is a message of which the server hears nothing.
type silent struct{ jetstream.Msg }

func (silent) InProgress() error                { return nil }
func (silent) NakWithDelay(time.Duration) error { return nil }

// The server gives a message of which it does not hear for AckWait to another worker. The
// first has no say any more, and the same worker does not run it twice at a time.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	p := &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)}
	one, other := retriesOf(t, q, p), retriesOf(t, q, p)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	fail := func(context.Context) error { return assert.AnError }
	err := one.Handle(t.Context(), silent{next(t, one)}, func(context.Context) error {
		redelivered := next(t, one)
		require.NoError(t, one.Handle(t.Context(), redelivered, func(context.Context) error {
			assert.Fail(t, "runs twice at the same time")
			return nil
		}))
		require.NoError(t, other.Handle(t.Context(), redelivered, fail)) // the second attempt
		return assert.AnError
	})
	require.ErrorContains(t, err, "another delivery of the message has gone on")
	require.NoError(t, other.Handle(t.Context(), next(t, one), fail)) // the third
	assert.Equal(t, "failed after 3 attempts: "+assert.AnError.Error(), enginekit.Await(t, q, "job-1").Err)
}

// renewed is a message that an old server delivers as new again.
type renewed struct{ jetstream.Msg }

func (r renewed) Metadata() (*jetstream.MsgMetadata, error) {
	meta, err := r.Msg.Metadata()
	if err == nil {
		meta.NumDelivered = 1
	}
	return meta, err
}

func TestRenewed(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	retries := retriesOf(t, q, &retry.Policy{
		MaxAttempts: 2, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter,
	})
	retries.Recount()
	require.NoError(t, q.Submit(t.Context(), "kind-1", "job-1"))
	msg := next(t, retries)
	began := time.Now()
	calls := 0
	fail := func(context.Context) error {
		calls++
		return assert.AnError
	}
	require.NoError(t, retries.Handle(t.Context(), silent{msg}, fail))
	require.NoError(t, retries.Handle(t.Context(), renewed{msg}, fail))
	assert.Equal(t, 1, calls, "early")
	require.NoError(t, retries.Handle(t.Context(), renewed{next(t, retries)}, fail))
	assert.Equal(t, 2, calls)
	assert.GreaterOrEqual(t, time.Since(began), time.Second)
	assert.Equal(t, enginetest.GaveUp, enginekit.Await(t, q, "job-1").Status)
}

func TestNoPolicy(t *testing.T) {
	t.Parallel()
	q := open(t, startServer(t))
	var said enginekit.Said
	q.failed = said.Hear
	enginekit.NoPolicy(t, q, true, func() string { return strings.ReplaceAll(said.Next(), q.name+".", "") })
}

// Handle returns in the time that the package comment says, also if the server is silent when it
// is asked, with the client's own settings.
func TestSilence(t *testing.T) {
	t.Parallel()
	url := startServer(t)
	for name, err := range map[string]error{
		"success": nil, "failure": assert.AnError, "end": retry.MarkFinal(assert.AnError),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, cable := open(t, url), enginetest.NewLink()
			conn := testkit.Must(nats.Connect(url, nats.SetCustomDialer(cable)))(t)
			js := testkit.Must(jetstream.New(conn))(t)
			r := &retryjetstream.Retries{JetStream: js, Consumer: nil, States: nil}
			r.Consumer = testkit.Must(js.Consumer(t.Context(), q.name, "workers"))(t)
			r.States = testkit.Must(js.KeyValue(t.Context(), q.name))(t)
			require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
			msg := testkit.Must(r.Consumer.Next())(t)
			var at time.Time
			over := make(chan struct{})
			go func() {
				defer close(over)
				_ = r.Handle(t.Context(), msg, func(context.Context) error {
					t.Cleanup(cable.Silence())
					at = time.Now()
					return err
				})
			}()
			enginekit.Returns(t, over, &at, 25*time.Second)
		})
	}
}
