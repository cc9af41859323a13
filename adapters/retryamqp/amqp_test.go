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
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
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
	enginetest.Run(t, &enginetest.Engine{
		Grain: 5 * time.Second, Recovery: 10 * time.Second, Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return open(t, kind)
		},
		SubmitLarge: func(ctx context.Context, q enginetest.Queue, kind, job string) error { // headers are limited, bodies hardly
			return q.(*queue).submit(ctx, kind, job, amqp.Table{"x": strings.Repeat("x", 131_000)}) //nolint:forcetypeassert // see Open
		},
		SubmitWith: func(ctx context.Context, q enginetest.Queue, kind, job string, headers map[string]string) error {
			table := amqp.Table{}
			for name, value := range headers {
				table[name] = value
			}
			return q.(*queue).submit(ctx, kind, job, table) //nolint:forcetypeassert // see Open
		},
		DeadHeaders: enginekit.DeadHeaders,
		OpenTwo: func(t testing.TB) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
			t.Helper()
			return openTwo(t, kind)
		},
		Cannot: map[string]enginetest.Instead{
			"context ignored for ever": {Why: "the broker goes on after its consumer_timeout", Endless: true},
		},
		RefuseDead: func(_ context.Context, q enginetest.Queue) (mend func() error, err error) {
			return q.(*queue).refuseDead() //nolint:forcetypeassert // see Open
		},
	})
}

func TestMain(m *testing.M) { testkit.AtOnce(m, 10) }

// TestCrash kills worker processes at random moments.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := open(t, "quorum")
			return q, q.name
		},
		Attach: func(t testing.TB, name string) enginetest.Queue {
			t.Helper()
			return &queue{t: t, name: name, single: true}
		},
		Forgets: true,
	}
	crash.Run(t)
}

// TestOutage has workers lose the broker again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "RabbitMQ")
	outage := &enginetest.Outage{
		Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
			t.Helper()
			q := open(t, "quorum")
			q.cable = cable
			return q
		},
		Forgets: true,
		Twice:   true,
	}
	outage.Run(t)
}

// cutting is the channel of a message that loses its connection in place of an Ack.
type cutting struct {
	amqp.Acknowledger

	cable *enginetest.Cable
}

func (c cutting) Ack(uint64, bool) error {
	c.cable.Cut()
	return amqp.ErrClosed
}

// A worker that is lost when the broker has the copy of a message, and has not heard that
// the message is done, leaves both. Both go on, each with a count of its own: the message
// counts the attempt as lost and is run at once, and the copy waits.
func TestLostBetweenCopyAndAck(t *testing.T) {
	t.Parallel()
	q := open(t, "quorum")
	p := &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter}
	cable := &enginetest.Cable{}
	lost := consumeOver(t, q, p, cable)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	msg := lost.next()
	msg.Acknowledger = cutting{msg.Acknowledger, cable}
	var ended time.Time
	require.Error(t, lost.retries.Handle(t.Context(), msg, func(context.Context) error {
		ended = time.Now()
		return assert.AnError
	}))

	c := consume(t, q, p)
	var again []bool
	for range 6 { // three attempts are left to either
		msg := c.next()
		again = append(again, msg.Redelivered)
		if !msg.Redelivered {
			assert.GreaterOrEqual(t, time.Since(ended), time.Second, "a copy waits")
		}
		require.NoError(t, c.retries.Handle(t.Context(), msg, func(context.Context) error { return assert.AnError }))
	}
	assert.Contains(t, again, true, "the message itself, without its wait")
	select {
	case msg := <-c.in:
		assert.Fail(t, "too many attempts", msg)
	case <-time.After(2 * time.Second):
	}
}

func dial(cable *enginetest.Cable, heartbeat time.Duration) (*amqp.Connection, error) {
	url := cmp.Or(os.Getenv("RETRY_TEST_AMQP"), "amqp://guest:guest@127.0.0.1:5672/")
	return amqp.DialConfig(url, amqp.Config{Dial: cable.Dial, Heartbeat: heartbeat})
}

func connect(t testing.TB, cable *enginetest.Cable) *amqp.Connection {
	t.Helper()
	testkit.Needs(t, "RabbitMQ")
	conn, err := dial(cable, time.Minute) // a busy machine is late to beat, too
	require.NoError(t, err, "RabbitMQ does not answer")
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// queue is a queue of the broker.
type queue struct {
	enginekit.Ends

	t       testing.TB
	name    string
	channel *amqp.Channel
	single  bool              // workers take one message at a time
	cable   *enginetest.Cable // of all workers, which connect again when it is lost
	shared  *amqp.Connection  // of all workers, which consume again when their channel is closed
	failed  func(error)       // is told of errors of Handle, unless it is nil
}

func open(t testing.TB, kind string) *queue {
	t.Helper()
	q := &queue{t: t, name: "enginetest-" + strings.ToLower(rand.Text()[:10])}
	q.channel = testkit.Must(connect(t, &enginetest.Cable{}).Channel())(t)
	testkit.Must(q.channel.QueueDeclare(q.name, true, false, false, false, amqp.Table{"x-queue-type": kind}))(t)
	require.NoError(t, q.channel.Confirm(false))
	require.NoError(t, q.declareDead())
	t.Cleanup(func() {
		for _, name := range []string{q.name, q.name + ".dead"} { // wait queues expire
			_, err := q.channel.QueueDelete(name, false, false, false)
			assert.NoError(t, err)
		}
	})
	return q
}

// openTwo opens two queues whose workers have one connection. The first queue has no place for
// copies that wait for a while.
func openTwo(t testing.TB, kind string) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
	t.Helper()
	bad, good := open(t, kind), open(t, kind)
	bad.shared = connect(t, &enginetest.Cable{})
	good.shared = bad.shared
	wait := bad.name + ".wait.52" // for 50 ms, which is the Unit
	return enginetest.Both(bad, good), func() (func() error, error) {
		_, err := bad.channel.QueueDeclare(wait, true, false, false, false, nil) // another one than the adapter would declare
		return func() error {
			_, err := bad.channel.QueueDelete(wait, false, false, false)
			return err
		}, err
	}
}

// declareDead makes the queue of dead letters, and reads it.
func (q *queue) declareDead() error {
	if _, err := q.channel.QueueDeclare(q.name+".dead", true, false, false, false, nil); err != nil {
		return err
	}
	dead, err := q.channel.Consume(q.name+".dead", "", true, true, false, false, nil)
	go func() {
		for msg := range dead {
			texts := map[string]string{}
			for name, value := range msg.Headers {
				texts[name], _ = value.(string)
			}
			q.GiveUp(string(msg.Body), texts["retry-error"], texts)
		}
	}()
	return err
}

// refuseDead removes the queue of dead letters until mend is called.
func (q *queue) refuseDead() (mend func() error, err error) {
	_, err = q.channel.QueueDelete(q.name+".dead", false, false, false)
	return q.declareDead, err
}

func (q *queue) Submit(ctx context.Context, kind, job string) error {
	return q.submit(ctx, kind, job, nil)
}

func (q *queue) submit(ctx context.Context, kind, job string, headers amqp.Table) error {
	confirmed, err := q.channel.PublishWithDeferredConfirm("", q.name, true, false, amqp.Publishing{
		Type: kind, Body: []byte(job), DeliveryMode: amqp.Persistent, Headers: headers,
	})
	if err != nil {
		return err
	}
	_, err = confirmed.WaitContext(ctx)
	return err
}

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &workers{cable: cmp.Or(q.cable, &enginetest.Cable{}), cancel: cancel}
	if q.shared != nil {
		w.wg.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(500 * time.Millisecond) {
				if deliveries, err := q.consume(ctx, w, q.shared, p, handle); err == nil {
					deliveries()
				}
			}
		})
		return w, nil
	}
	if q.cable == nil {
		w.conn = connect(q.t, w.cable)
		deliveries, err := q.consume(ctx, w, w.conn, p, handle)
		if err == nil {
			w.wg.Go(deliveries)
		}
		return w, err
	}
	w.wg.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			conn, err := dial(w.cable, time.Second)
			if err != nil {
				continue
			}
			if deliveries, err := q.consume(ctx, w, conn, p, handle); err == nil {
				go func() {
					<-ctx.Done()
					_ = conn.Close()
				}()
				deliveries()
			}
			_ = conn.Close()
		}
	})
	return w, nil
}

// consume returns a function that handles messages until the connection is lost, or the
// consumer is canceled.
func (q *queue) consume(
	ctx context.Context, w *workers, conn *amqp.Connection, p enginetest.Policies, handle enginetest.Handler,
) (func(), error) {
	retries := &retryamqp.Retries{Policy: p.Policy, PolicyFor: p.PolicyFor, Conn: conn, Queue: q.name}
	channel, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	prefetch := 50
	if q.single {
		prefetch = 1
	}
	if err := channel.Qos(prefetch, 0, false); err != nil {
		return nil, err
	}
	deliveries, err := channel.Consume(q.name, "worker", false, false, false, false, nil)
	if err != nil {
		return nil, err
	}
	w.channel = channel
	if q.shared != nil {
		context.AfterFunc(ctx, func() { _ = channel.Close() })
	}
	return func() {
		var handlers sync.WaitGroup
		for msg := range deliveries {
			handlers.Go(func() {
				if err := q.handle(ctx, retries, msg, handle); err != nil && q.shared != nil {
					_ = channel.Close() // what retries has not answered comes again
				}
			})
		}
		handlers.Wait()
		_ = retries.Close()
	}, nil
}

// handle handles a message. The broker keeps no record of a success.
func (q *queue) handle(ctx context.Context, retries *retryamqp.Retries, msg amqp.Delivery, handle enginetest.Handler) error {
	succeeded := false
	err := retries.Handle(ctx, msg, func(ctx context.Context) error {
		err := handle(ctx, string(msg.Body))
		succeeded = err == nil
		return err
	})
	if err != nil && q.failed != nil {
		q.failed(err)
	}
	if succeeded && err == nil {
		q.Succeed(string(msg.Body))
	}
	return err
}

type workers struct {
	cable   *enginetest.Cable
	conn    *amqp.Connection
	channel *amqp.Channel
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

func (w *workers) Stop(context.Context) error {
	if w.conn != nil {
		_ = w.channel.Cancel("worker", false) // closed already, after Kill
	}
	w.cancel()
	w.wg.Wait()
	if w.conn != nil {
		_ = w.conn.Close()
	}
	return nil
}

func (w *workers) Kill() error {
	time.Sleep(100 * time.Millisecond) // a busy machine is late to send the acknowledgement of the attempt before
	w.cable.Cut()
	return nil
}
