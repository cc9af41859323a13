package retryasynq_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

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
