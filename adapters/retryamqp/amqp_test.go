package retryamqp_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryamqp"
	"github.com/seed-5ff3c98e/retry/internal/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, "quorum")
}

func TestConformanceOfClassicQueues(t *testing.T) {
	t.Parallel()
	conform(t, "classic")
}

func conform(t *testing.T, kind string) {
	t.Helper()
	for _, r := range enginetest.Run(t, &enginetest.Engine{
		Grain: 5 * time.Second, Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return open(t, kind)
		},
	}) {
		t.Logf("%-45s late by %v at most", r.Script, r.Late.Round(time.Millisecond))
	}
}

func connect(t testing.TB, cable *enginetest.Cable) *amqp.Connection {
	t.Helper()
	testkit.Needs(t, "RabbitMQ")
	url := cmp.Or(os.Getenv("RETRY_TEST_AMQP"), "amqp://guest:guest@127.0.0.1:5672/")
	conn, err := amqp.DialConfig(url, amqp.Config{Dial: cable.Dial, Heartbeat: 10 * time.Second})
	require.NoError(t, err, "RabbitMQ does not answer")
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// queue is a queue of the broker.
type queue struct {
	t       testing.TB
	name    string
	channel *amqp.Channel
	single  bool // workers take one message at a time

	mu   sync.Mutex
	ends map[string]enginetest.Outcome
}

func open(t testing.TB, kind string) *queue {
	t.Helper()
	q := &queue{t: t, name: "enginetest-" + strings.ToLower(rand.Text()[:10]), ends: map[string]enginetest.Outcome{}}
	var err error
	q.channel, err = connect(t, &enginetest.Cable{}).Channel()
	require.NoError(t, err)
	_, err = q.channel.QueueDeclare(q.name, true, false, false, false, amqp.Table{"x-queue-type": kind})
	require.NoError(t, err)
	_, err = q.channel.QueueDeclare(q.name+".dead", true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, q.channel.Confirm(false))
	dead, err := q.channel.Consume(q.name+".dead", "", true, true, false, false, nil)
	require.NoError(t, err)
	go func() {
		for msg := range dead {
			text, _ := msg.Headers["retry-error"].(string)
			q.ended(string(msg.Body), enginetest.Outcome{Status: enginetest.GaveUp, Err: text})
		}
	}()
	t.Cleanup(func() {
		for _, name := range []string{q.name, q.name + ".dead"} { // wait queues expire
			_, err := q.channel.QueueDelete(name, false, false, false)
			assert.NoError(t, err)
		}
	})
	return q
}

func (q *queue) ended(job string, o enginetest.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ends[job] = o
}

func (q *queue) Submit(ctx context.Context, _ *retry.Policy, job string) error {
	confirmed, err := q.channel.PublishWithDeferredConfirm("", q.name, true, false, amqp.Publishing{
		Body: []byte(job), DeliveryMode: amqp.Persistent,
	})
	if err != nil {
		return err
	}
	_, err = confirmed.WaitContext(ctx)
	return err
}

func (q *queue) Outcome(_ context.Context, job string) (enginetest.Outcome, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ends[job], nil
}

func (q *queue) Start(p *retry.Policy, handle enginetest.Handler) (enginetest.Workers, error) {
	w := &workers{cable: &enginetest.Cable{}}
	w.conn = connect(q.t, w.cable)
	retries, err := retryamqp.New(w.conn, q.name, p)
	if err != nil {
		return nil, err
	}
	if w.channel, err = w.conn.Channel(); err != nil {
		return nil, err
	}
	prefetch := 50
	if q.single {
		prefetch = 1
	}
	if err := w.channel.Qos(prefetch, 0, false); err != nil {
		return nil, err
	}
	deliveries, err := w.channel.Consume(q.name, "worker", false, false, false, false, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.wg.Go(func() {
		for msg := range deliveries {
			w.wg.Go(func() { q.handle(ctx, retries, msg, handle) })
		}
	})
	return w, nil
}

// handle handles a message. The broker keeps no record of a success.
func (q *queue) handle(ctx context.Context, retries *retryamqp.Retries, msg amqp.Delivery, handle enginetest.Handler) {
	succeeded := false
	err := retries.Handle(ctx, msg, func(ctx context.Context) error {
		err := handle(ctx, string(msg.Body))
		succeeded = err == nil
		return err
	})
	if succeeded && err == nil {
		q.ended(string(msg.Body), enginetest.Outcome{Status: enginetest.Succeeded})
	}
}

type workers struct {
	cable   *enginetest.Cable
	conn    *amqp.Connection
	channel *amqp.Channel
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

func (w *workers) Stop(context.Context) error {
	_ = w.channel.Cancel("worker", false) // closed already, after Kill
	w.cancel()
	w.wg.Wait()
	_ = w.conn.Close()
	return nil
}

func (w *workers) Kill() error {
	w.cable.Cut()
	return nil
}
