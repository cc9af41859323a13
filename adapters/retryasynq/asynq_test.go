package retryasynq_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/adapters/retryasynq"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // workers that are cut off complain
	testkit.AtOnce(m, 10)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, &enginetest.Engine{
		Open: enginekit.Opens(open),
		Unit: time.Second, Grain: 5 * time.Second, Recovery: 10 * time.Second, Repeat: repeat, InPlace: true,
		OpenTwo: openTwo,
		Cannot: map[string]enginetest.Instead{
			"context ignored for ever": {Why: "asynq goes on after the Timeout of the task", Endless: true},
			"success not stored":       {Why: "asynq stores the outcome after the handler", Told: []string{"1: succeeded", "2: succeeded"}},
		},
	})
}

// TestCrash kills worker processes at random moments.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := open(t)
			return q, q.name
		},
		Attach: func(t testing.TB, name string) enginetest.Queue {
			t.Helper()
			q := attach(t, name)
			q.concurrency = 1
			return q
		},
		Died: died,
	}
	crash.Run(t)
}

// died has the leases run out of the tasks that a process had begun, for which others
// would wait a minute, and those that nobody has extended for a while: a process may die
// before it has begun the task that it took. The next process sees to them when it starts.
func died(engine enginetest.Queue, _ []int, begun []string) error {
	q, ctx := engine.(*queue), context.Background()
	const lease, pause = 30 * time.Second, 5 * time.Second // between extensions
	old, err := q.redis.ZRangeByScore(ctx, q.leases(), &redis.ZRangeBy{
		Min: "-inf", Max: strconv.FormatInt(time.Now().Add(lease-3*pause).Unix(), 10),
	}).Result()
	if err != nil {
		return err
	}
	return q.expire(ctx, append(old, begun...))
}

// TestOutage has workers lose Redis again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := &enginetest.Outage{
		Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
			t.Helper()
			q := open(t)
			q.cable = cable
			return q
		},
		Lost: func(q enginetest.Queue) error { return died(q, nil, nil) },
	}
	outage.Run(t)
}

// wire is how to reach Redis over a cable.
type wire struct{ cable *enginetest.Cable }

// MakeRedisClient implements [asynq.RedisConnOpt].
func (w wire) MakeRedisClient() any {
	return redis.NewClient(&redis.Options{
		Addr: cmp.Or(os.Getenv("RETRY_TEST_REDIS"), "127.0.0.1:6379"), Dialer: w.cable.DialContext, DB: 13,
		DisableIdentity: true,
	})
}

// queue is a queue with a name of its own.
type queue struct {
	t           testing.TB
	name        string
	client      *asynq.Client
	inspector   *asynq.Inspector
	redis       redis.UniversalClient
	concurrency int
	cable       *enginetest.Cable     // of all workers, which connect again when it is lost
	shared      redis.UniversalClient // of all workers
	again       func() (enginetest.Workers, error)
}

// openTwo opens two queues whose workers have one client. For a while, the first does not know
// which tasks are worked on, and takes no outcome. asynq 0.26 tells none again, and finds the tasks
// when their leases are over.
func openTwo(t testing.TB) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
	t.Helper()
	bad, good := open(t), open(t)
	bad.shared, good.shared = bad.redis, bad.redis
	active, ctx := "asynq:{"+bad.name+"}:active", context.Background()
	return enginetest.Both(bad, good), func() (func() error, error) {
		return func() error {
			tasks, err := bad.redis.LRange(ctx, active+"-gone", 0, -1).Result()
			for _, task := range tasks {
				err = cmp.Or(err, bad.redis.RPush(ctx, active, task).Err())
			}
			if err = cmp.Or(err, bad.expire(ctx, tasks)); err != nil {
				return err
			}
			w, err := bad.again() // a server that starts looks for leases that are over
			if err != nil {
				return err
			}
			time.Sleep(100 * time.Millisecond)
			return w.Stop(ctx)
		}, bad.redis.Rename(ctx, active, active+"-gone").Err()
	}
}

func open(t testing.TB) *queue {
	t.Helper()
	q := attach(t, "enginetest-"+strings.ToLower(rand.Text()[:10]))
	t.Cleanup(func() {
		if err := q.inspector.DeleteQueue(q.name, true); !errors.Is(err, asynq.ErrQueueNotFound) {
			assert.NoError(t, err)
		}
	})
	return q
}

func attach(t testing.TB, name string) *queue {
	t.Helper()
	testkit.Needs(t, "Redis")
	plain := wire{&enginetest.Cable{}}
	q := &queue{
		t: t, name: name, client: asynq.NewClient(plain), inspector: asynq.NewInspector(plain),
		redis: plain.MakeRedisClient().(redis.UniversalClient), concurrency: 10,
	}
	require.NoError(t, q.redis.Ping(t.Context()).Err(), "Redis does not answer")
	t.Cleanup(func() {
		assert.NoError(t, q.client.Close())
		assert.NoError(t, q.inspector.Close())
		assert.NoError(t, q.redis.Close())
	})
	return q
}

func (q *queue) Submit(ctx context.Context, kind, job string) error {
	_, err := q.client.EnqueueContext(ctx, asynq.NewTask(kind, []byte(job)),
		retryasynq.MaxRetry(), asynq.Queue(q.name), asynq.TaskID(job), asynq.Retention(time.Hour))
	return err
}

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	q.again = func() (enginetest.Workers, error) { return q.Start(p, handle) }
	w := &workers{queue: q, cable: cmp.Or(q.cable, &enginetest.Cable{})}
	client := q.shared
	if client == nil {
		client = wire{w.cable}.MakeRedisClient().(redis.UniversalClient)
		w.redis = client
	}
	retries := &retryasynq.Retries{Policy: p.Policy, PolicyFor: p.PolicyFor, Redis: client}
	config := asynq.Config{
		Concurrency: q.concurrency, Queues: map[string]int{q.name: 1}, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 50 * time.Millisecond,
		ShutdownTimeout: 2 * time.Second, // a decision has to be written meanwhile, on a busy machine
	}
	if err := retries.Configure(&config); err != nil {
		return nil, err
	}
	w.server = asynq.NewServerFromRedisClient(client, config)
	return w, w.server.Start(retries.Handler(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		return handle(ctx, string(task.Payload()))
	})))
}

func (q *queue) Outcome(_ context.Context, job string) (enginetest.Outcome, error) {
	info, err := q.inspector.GetTaskInfo(q.name, job)
	if err != nil {
		return enginetest.Outcome{}, err
	}
	switch info.State {
	case asynq.TaskStateCompleted:
		return enginetest.Outcome{Status: enginetest.Succeeded}, nil
	case asynq.TaskStateArchived:
		return enginetest.Outcome{Status: enginetest.GaveUp, Err: info.LastErr}, nil
	default:
		return enginetest.Outcome{}, nil
	}
}

type workers struct {
	queue  *queue
	cable  *enginetest.Cable
	redis  redis.UniversalClient
	server *asynq.Server
}

func (w *workers) Stop(context.Context) error {
	w.server.Shutdown()
	if w.redis == nil {
		return nil
	}
	return w.redis.Close()
}

// Kill has the leases run out, for which others would wait a minute.
func (w *workers) Kill() error {
	w.cable.Cut()
	ctx := context.Background()
	tasks, err := w.queue.redis.ZRange(ctx, w.queue.leases(), 0, -1).Result()
	if err != nil {
		return err
	}
	return w.queue.expire(ctx, tasks)
}

// leases is the key of the leases, with the times at which they end.
func (q *queue) leases() string { return "asynq:{" + q.name + "}:lease" }

// expire has the leases of tasks be over for so long that asynq sees to them.
func (q *queue) expire(ctx context.Context, tasks []string) error {
	for _, task := range tasks {
		past := redis.Z{Score: float64(time.Now().Add(-time.Hour).Unix()), Member: task}
		if err := q.redis.ZAddXX(ctx, q.leases(), past).Err(); err != nil {
			return err
		}
	}
	return nil
}

// repeat has the lease of a task be over, and a server start, which sees to that first.
func repeat(ctx context.Context, engine enginetest.Queue, job string) error {
	q := engine.(*queue) //nolint:forcetypeassert // see TestConformance
	for begun := -1; ; {
		info, err := q.inspector.GetTaskInfo(q.name, job)
		if err != nil || begun >= 0 && (info.State != asynq.TaskStateActive || info.Retried > begun) {
			return err
		}
		begun = info.Retried // or its worker has prolonged the lease
		if err := q.expire(ctx, []string{job}); err != nil {
			return err
		}
		w, err := q.again()
		if err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		if err := w.Stop(ctx); err != nil {
			return err
		}
	}
}
