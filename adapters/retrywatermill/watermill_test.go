package retrywatermill_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrywatermill"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	const why = "messages are in memory"
	waits := []string{"1: boom: retry in 500ms"}
	conform(t, &enginetest.Engine{
		Grain: time.Second, Recovery: time.Second, Cannot: map[string]enginetest.Instead{
			"crash":                    {Why: why, Endless: true},
			"crash: poison":            {Why: why, Endless: true},
			"crash: not idempotent":    {Why: why, Endless: true},
			"crash after a failure":    {Why: why, Told: []string{"1: boom: retry in 50ms"}, Endless: true},
			"success not stored":       {Why: why, Told: []string{"1: succeeded"}, Endless: true},
			"shutdown":                 {Why: why, Endless: true},
			"context ignored for ever": {Why: why, Endless: true},

			"policy change: fewer attempts":             {Why: why, Told: waits, Endless: true},
			"policy change: more attempts, other waits": {Why: why, Told: waits, Endless: true},
		},
		Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return open(t, func(...string) broker { return openChannel() })
		},
	})
}

func TestConformanceOfNATS(t *testing.T) {
	t.Parallel()
	conform(t, &enginetest.Engine{
		Grain: 5 * time.Second, Recovery: 10 * time.Second, Jobs: 2000, Cannot: uncounted(),
		Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return open(t, func(topics ...string) broker { return openNATS(t, many, topics...) })
		},
	})
}

// uncounted is for brokers that do not say how often they have delivered a message.
func uncounted() map[string]enginetest.Instead {
	const why = "Watermill does not say how often a message was delivered"
	again := "gave up (final): an attempt too many"
	return map[string]enginetest.Instead{
		"crash":                 {Why: why, Told: []string{"1: boom: retry in 50ms", "2: succeeded"}},
		"crash: poison":         {Why: why, Told: []string{"1: " + again}},
		"crash: not idempotent": {Why: why, Told: []string{"1: " + again}},
		"crash after a failure": {Why: why, Told: []string{"1: boom: retry in 50ms", "2: " + again}},
		"success not stored": {
			Why: "the router tells the broker after the middleware", Told: []string{"1: succeeded", "1: succeeded"},
		},
	}
}

func TestConformanceOfRedis(t *testing.T) {
	t.Parallel()
	cannot := uncounted()
	cannot["context ignored for ever"] = enginetest.Instead{Why: "a subscriber claims nothing from itself", Endless: true}
	conform(t, &enginetest.Engine{
		Grain: 5 * time.Second, Recovery: 10 * time.Second, Jobs: 1000, Cannot: cannot,
		Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return open(t, func(topics ...string) broker { return openRedis(t, topics...) })
		},
	})
}

// TestConformanceOfSQL has a broker that heeds delays, and publishes copies in the transaction
// of the message.
func TestConformanceOfSQL(t *testing.T) {
	t.Parallel()
	conform(t, &enginetest.Engine{
		Grain: 5 * time.Second, Recovery: 10 * time.Second, Jobs: 300, Cannot: uncounted(),
		Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return open(t, func(...string) broker { return openSQL(t) })
		},
	})
}

func conform(t *testing.T, e *enginetest.Engine) {
	t.Helper()
	e.SubmitWith = func(_ context.Context, q enginetest.Queue, kind, job string, headers map[string]string) error {
		return q.(*queue).submit(kind, job, headers) //nolint:forcetypeassert // made by Open
	}
	e.DeadHeaders = enginekit.DeadHeaders
	e.OpenTwo = func(t testing.TB) (enginetest.Queue, func() (func() error, error)) {
		t.Helper()
		q := e.Open(t).(*queue) //nolint:forcetypeassert // made by Open
		return q, q.refuse
	}
	e.Cannot["largest message"] = enginetest.Instead{Why: "each broker has a limit of its own: TestLimitOfSize"}
	e.Cannot["refused dead letter"] = enginetest.Instead{Why: "the message comes again: TestNoRoom"}
	enginetest.Run(t, e)
}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // workers that are cut off complain
	testkit.AtOnce(m, 10)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// delivered is a Lost for JetStream, which counts deliveries; see [counted].
func delivered(msg *message.Message) int {
	n, _ := strconv.Atoi(msg.Metadata.Get("delivered"))
	return n - 1
}

// openCounted opens a queue of NATS whose workers know how often a message was delivered.
func openCounted(t testing.TB, concurrency int) *queue {
	t.Helper()
	q := open(t, func(topics ...string) broker { return openNATS(t, concurrency, topics...) })
	q.lost, q.concurrency = delivered, concurrency
	return q
}

// TestCrash kills worker processes at random moments. The server is in the process of the
// test, which lives.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := openCounted(t, 1)
			b := q.broker.(natsBroker) //nolint:forcetypeassert // see openCounted
			return q, b.url + " " + b.name + " " + q.name
		},
		Attach: func(t testing.TB, address string) enginetest.Queue {
			t.Helper()
			parts := strings.Fields(address)
			q := newQueue(t, parts[2])
			q.lost, q.concurrency = delivered, 1
			q.attach(natsBroker{parts[0], parts[1]})
			return q
		},
		Forgets: true,
	}
	crash.Run(t)
}

// A broker that counts deliveries ends a message that kills its workers, and one whose policy
// is not idempotent.
func TestLost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy retry.Policy
		deaths int
		want   string
	}{
		{retry.Policy{MaxAttempts: 2}, 2, "2: gave up (attempts): retry: worker lost"},
		{retry.Policy{NonIdempotent: true}, 1, "1: gave up (maybe_applied): retry: worker lost"},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			q, events := openCounted(t, 1), &retrytest.Recorder{}
			test.policy.Observer = events.Observer()
			begun, release := make(chan struct{}, 10), make(chan struct{})
			defer close(release)
			start := func() enginetest.Workers {
				w, err := q.Start(enginetest.Policies{Policy: &test.policy}, func(context.Context, string) error {
					begun <- struct{}{}
					<-release
					return errors.New("nobody hears this")
				})
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, w.Stop(context.Background())) })
				return w
			}
			require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
			for range test.deaths {
				w := start()
				<-begun
				require.NoError(t, w.Kill())
			}
			start()
			enginekit.Await(t, q, "a")
			assert.Empty(t, begun)
			require.Eventually(t, func() bool { return len(events.Events()) > 0 }, 10*time.Second, time.Millisecond) // after it is stored
			events.Expect(t, test.want)
		})
	}
}

// TestOutage has workers lose NATS again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	suffer(t, func(t testing.TB) *queue {
		t.Helper()
		return open(t, func(topics ...string) broker { return openNATS(t, many, topics...) })
	})
}

// TestOutageOfRedis has them lose Redis.
func TestOutageOfRedis(t *testing.T) {
	t.Parallel()
	suffer(t, func(t testing.TB) *queue {
		t.Helper()
		return open(t, func(topics ...string) broker { return openRedis(t, topics...) })
	})
}

func suffer(t *testing.T, open func(t testing.TB) *queue) {
	t.Helper()
	outage := &enginetest.Outage{
		Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
			t.Helper()
			q := open(t)
			q.cable = cable
			return q
		},
		Forgets: true,
		Twice:   true,
	}
	outage.Run(t)
}

// queue is a topic for each kind of jobs.
type queue struct {
	enginekit.Ends

	t           testing.TB
	name        string
	broker      broker
	publisher   message.Publisher
	lost        func(*message.Message) int
	concurrency int
	cable       *enginetest.Cable // of all workers, which connect again when it is lost
	refuses     atomic.Bool       // what workers publish to the topic of kind-1

	done sync.Map // the jobs whose handlers have succeeded
}

const (
	poisoned = "_poison"
	many     = 10 // messages at a time
)

func (q *queue) kinds() []string { return []string{"kind-1", "kind-2"} }

func (q *queue) topic(kind string) string { return q.name + "_" + kind }

func (q *queue) topics() (all []string) {
	for _, kind := range q.kinds() {
		all = append(all, q.topic(kind), q.topic(kind)+poisoned)
	}
	return all
}

func newQueue(t testing.TB, name string) *queue {
	t.Helper()
	return &queue{t: t, name: name, concurrency: many}
}

func open(t testing.TB, start func(topics ...string) broker) *queue {
	t.Helper()
	q := newQueue(t, random("enginetest-"))
	q.attach(start(q.topics()...))
	_, subscriber, err := q.broker.dial(&enginetest.Cable{}, 1)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, subscriber.Close())
	})
	for _, kind := range q.kinds() {
		dead := testkit.Must(subscriber.Subscribe(ctx, q.topic(kind)+poisoned))(t)
		go func() {
			for msg := range dead {
				q.GiveUp(jobOf(msg), msg.Metadata.Get(middleware.ReasonForPoisonedKey), msg.Metadata)
				msg.Ack()
			}
		}()
	}
	return q
}

func (q *queue) attach(b broker) {
	q.t.Helper()
	q.broker = b
	var err error
	q.publisher, _, err = b.dial(&enginetest.Cable{}, 1)
	require.NoError(q.t, err)
	q.t.Cleanup(func() { assert.NoError(q.t, q.publisher.Close()) })
}

// refuse has the topic of kind-1 take nothing from workers until mend is called.
func (q *queue) refuse() (mend func() error, err error) {
	q.refuses.Store(true)
	return func() error { q.refuses.Store(false); return nil }, nil
}

// refusing is a publisher of workers.
type refusing struct {
	message.Publisher

	queue *queue
}

// Publish implements [message.Publisher].
func (r refusing) Publish(topic string, messages ...*message.Message) error {
	if topic == r.queue.topic("kind-1") && r.queue.refuses.Load() {
		return errors.New("the topic takes nothing")
	}
	return r.Publisher.Publish(topic, messages...)
}

// jobOf returns the job of a message. Its payload is JSON, as a table wants it.
func jobOf(msg *message.Message) string {
	job, _ := strconv.Unquote(string(msg.Payload))
	return job
}

func (q *queue) Submit(_ context.Context, kind, job string) error { return q.submit(kind, job, nil) }

func (q *queue) submit(kind, job string, headers map[string]string) error {
	msg := message.NewMessage(random(""), []byte(strconv.Quote(job)))
	maps.Copy(msg.Metadata, headers)
	return q.publisher.Publish(q.topic(kind), msg)
}

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	w := &workers{queue: q, cable: cmp.Or(q.cable, &enginetest.Cable{}), over: make(chan struct{})}
	publisher, subscriber, err := q.broker.dial(w.cable, q.concurrency)
	if err != nil {
		return nil, err
	}
	w.retries = &retrywatermill.Retries{
		Policy: p.Policy, PolicyFor: p.PolicyFor, Publisher: refusing{publisher, q}, Lost: q.lost, Hold: 200 * time.Millisecond,
	}
	if p.PolicyFor != nil {
		w.retries.PolicyFor = func(topic string) (*retry.Policy, error) {
			return p.PolicyFor(topic[len(q.name)+1:])
		}
	}
	w.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: 2 * time.Second}, nil)
	if err != nil {
		return nil, err
	}
	w.subscriber = subscriber
	w.router.AddMiddleware(w.record, w.retries.Middleware)
	for _, kind := range q.kinds() {
		w.router.AddConsumerHandler(kind, q.topic(kind), subscriber, func(msg *message.Message) error {
			err := handle(msg.Context(), jobOf(msg))
			if err == nil {
				q.done.Store(jobOf(msg), true)
			}
			return err
		})
	}
	go func() {
		defer close(w.over)
		assert.NoError(q.t, w.router.Run(context.Background()))
	}()
	select {
	case <-w.router.Running():
		return w, nil
	case <-w.over:
		return nil, errors.New("the router does not run")
	}
}

// record notes successes, of which a broker keeps no record. One of a worker that is dead does not
// reach it.
func (w *workers) record(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := next(msg)
		if _, done := w.queue.done.Load(jobOf(msg)); err == nil && done && !w.killed.Load() {
			w.queue.Succeed(jobOf(msg))
		}
		return produced, err
	}
}

// workers are a process with a router.
type workers struct {
	queue   *queue
	cable   *enginetest.Cable
	killed  atomic.Bool
	retries *retrywatermill.Retries
	router  *message.Router
	over    chan struct{}

	subscriber message.Subscriber
}

func (w *workers) Stop(ctx context.Context) error {
	if !w.killed.Load() {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := w.retries.Close(ctx); err != nil {
			return err
		}
		if sql, ok := w.subscriber.(closing); ok { // it commits when it has had the answer, unless the router cancels that
			if err := sql.Close(); err != nil {
				return err
			}
		}
	}
	return w.router.Close()
}

func (w *workers) Kill() error {
	w.killed.Store(true)
	w.cable.Cut()
	return nil
}
