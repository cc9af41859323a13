package retrystreams_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/adapters/retrystreams"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, &enginetest.Engine{
		Grain: 5 * time.Second, Recovery: 10 * time.Second,
		Open: enginekit.Opens(open),
		Repeat: func(ctx context.Context, q enginetest.Queue, job string) error {
			return q.(*queue).repeat(ctx, job) //nolint:forcetypeassert // see Open
		},
		// Redis takes half a gigabyte. But each look of Outcome at a message of 16 MiB takes a second
		// or more, in which the server answers no other test.
		SubmitLarge: func(ctx context.Context, q enginetest.Queue, kind, job string) error {
			return q.(*queue).submit(ctx, kind, job, "body", strings.Repeat("x", 1<<20)) //nolint:forcetypeassert // see Open
		},
		SubmitWith: func(ctx context.Context, q enginetest.Queue, kind, job string, headers map[string]string) error {
			var fields []string
			for name, value := range headers {
				fields = append(fields, name, value)
			}
			return q.(*queue).submit(ctx, kind, job, fields...) //nolint:forcetypeassert // see Open
		},
		DeadHeaders: func(ctx context.Context, q enginetest.Queue, _ string) (map[string]string, error) {
			return q.(*queue).deadFields(ctx) //nolint:forcetypeassert // see Open
		},
		OpenTwo: openTwo,
		RefuseDead: func(ctx context.Context, q enginetest.Queue) (mend func() error, err error) {
			client, dead := q.(*queue).client, q.(*queue).key("dead") //nolint:forcetypeassert // see Open
			return func() error { return client.Del(ctx, dead).Err() }, client.Set(ctx, dead, "x", 0).Err()
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
			q := open(t)
			return q, q.name
		},
		Attach: func(t testing.TB, name string) enginetest.Queue {
			t.Helper()
			return &queue{t: t, name: name, single: true}
		},
	}
	crash.Run(t)
}

var outage = &enginetest.Outage{
	Stops: time.Second + 11*time.Second, // MinIdle, and the client's patience
	Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
		t.Helper()
		q := open(t)
		q.cable = cable
		return q
	},
}

// TestOutage has workers lose the server again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "Redis")
	outage.Run(t)
}

// TestSilence has workers stop although the server is silent.
func TestSilence(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "Redis")
	outage.Silence(t)
}

func connect(t testing.TB, cable *enginetest.Cable) *redis.Client {
	t.Helper()
	testkit.Needs(t, "Redis")
	return redis.NewClient(&redis.Options{
		Addr: cmp.Or(os.Getenv("RETRY_TEST_REDIS"), "127.0.0.1:6379"), Dialer: cable.DialContext, DisableIdentity: true,
		PoolSize: 60,
	})
}

// queue is a stream with one group.
type queue struct {
	t      testing.TB
	name   string
	client *redis.Client
	ids    map[string]string
	single bool              // workers take one message at a time
	cable  *enginetest.Cable // of all workers, which connect again when it is lost
	shared *redis.Client     // of all workers
	kind   string            // the field with the kind; empty means "kind"
	told   func(error)       // of what workers tell; may be nil
}

func open(t testing.TB) *queue {
	t.Helper()
	q := &queue{t: t, name: "enginetest-" + strings.ToLower(rand.Text()[:10]), ids: map[string]string{}}
	q.client = connect(t, &enginetest.Cable{})
	require.NoError(t, q.client.XGroupCreateMkStream(t.Context(), q.name, "workers", "0").Err(), "Redis does not answer")
	t.Cleanup(func() {
		assert.NoError(t, q.client.Del(context.Background(), q.name, q.key("retry"), q.key("due"), q.key("dead")).Err())
		assert.NoError(t, q.client.Close())
	})
	return q
}

// openTwo opens two streams whose workers have one client. The first stream goes for a while.
func openTwo(t testing.TB) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
	t.Helper()
	bad, good := open(t), open(t)
	bad.shared = connect(t, &enginetest.Cable{})
	good.shared = bad.shared
	t.Cleanup(func() { assert.NoError(t, bad.shared.Close()) })
	ctx := context.Background()
	return enginetest.Both(bad, good), func() (func() error, error) {
		return func() error { return bad.client.Rename(ctx, bad.name+"-gone", bad.name).Err() },
			bad.client.Rename(ctx, bad.name, bad.name+"-gone").Err()
	}
}

// key returns a key that belongs to the stream.
func (q *queue) key(of string) string { return "{" + q.name + "}:workers:" + of }

func (q *queue) Submit(ctx context.Context, kind, job string) error { return q.submit(ctx, kind, job) }

func (q *queue) submit(ctx context.Context, kind, job string, fields ...string) (err error) {
	q.ids[job], err = q.client.XAdd(ctx, &redis.XAddArgs{
		Stream: q.name, Values: append([]string{cmp.Or(q.kind, "kind"), kind, "job", job}, fields...),
	}).Result()
	return err
}

// deadFields returns the fields of the message that was given up.
func (q *queue) deadFields(ctx context.Context) (map[string]string, error) {
	all, err := q.client.XRange(ctx, q.key("dead"), "-", "+").Result()
	if err != nil || len(all) != 1 {
		return nil, fmt.Errorf("%d dead letters: %w", len(all), err)
	}
	fields := map[string]string{}
	for name, value := range all[0].Values {
		fields[name], _ = value.(string)
	}
	return fields, nil
}

// outcome looks at one instant. A message that was delivered, and is nowhere, has succeeded.
//
//nolint:dupword // it is Lua
var outcome = redis.NewScript(`
	local id = ARGV[1]
	for i, key in ipairs({KEYS[3], KEYS[2]}) do
		for _, copy in ipairs(redis.call('XRANGE', key, '-', '+')) do
			local fields = {}
			for i = 1, #copy[2], 2 do fields[copy[2][i]] = copy[2][i + 1] end
			if fields['retry-id'] == id then
				return {i == 1 and 2 or 0, fields['retry-error'] or ''}
			end
		end
	end
	if redis.call('XPENDING', KEYS[1], 'workers', id, id, 1)[1] then return {0, ''} end
	local last = redis.call('XINFO', 'GROUPS', KEYS[1])[1][8]
	if #redis.call('XRANGE', KEYS[1], id, id) == 1 and redis.call('XRANGE', KEYS[1], '(' .. last, id, 'COUNT', 1)[1] then
		return {0, ''}
	end
	return {1, ''}`)

func (q *queue) Outcome(ctx context.Context, job string) (enginetest.Outcome, error) {
	reply, err := outcome.Run(ctx, q.client, []string{q.name, q.key("retry"), q.key("dead")}, q.ids[job]).Slice()
	if err != nil {
		return enginetest.Outcome{}, err
	}
	return enginetest.Outcome{
		Status: map[int64]enginetest.Status{1: enginetest.Succeeded, 2: enginetest.GaveUp}[reply[0].(int64)], Err: reply[1].(string),
	}, nil
}

// idle makes the server take whoever has a message for dead, and returns how often it was
// delivered. If that is not as often as is given, another worker has it already.
//
//nolint:dupword // it is Lua
var idle = redis.NewScript(`
	local id = ARGV[1]
	local pending = redis.call('XPENDING', KEYS[1], 'workers', id, id, 1)[1]
	if not pending then return false end
	if tonumber(ARGV[2]) > 0 and pending[4] ~= tonumber(ARGV[2]) then return pending[4] end
	redis.call('XCLAIM', KEYS[1], 'workers', pending[2], 0, id, 'IDLE', 3600000, 'JUSTID')
	return pending[4]`)

// repeat makes the server take the worker of a job for dead, until another one has it: the
// first may have told the server that it lives, or has ended it.
func (q *queue) repeat(ctx context.Context, job string) error {
	for before := 0; ; time.Sleep(time.Millisecond) {
		count, err := idle.Run(ctx, q.client, []string{q.name}, q.ids[job], before).Int()
		switch {
		case errors.Is(err, redis.Nil) && before > 0:
			return nil
		case err != nil:
			return fmt.Errorf("%s is not being worked on: %w", job, err)
		case before > 0 && count != before:
			return nil
		}
		before = count
	}
}

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	cable := cmp.Or(q.cable, &enginetest.Cable{})
	client := q.shared
	if client == nil {
		client = connect(q.t, cable)
		q.t.Cleanup(func() { _ = client.Close() })
	}
	retries := &retrystreams.Retries{
		Policy: p.Policy, PolicyFor: p.PolicyFor, Redis: client, Stream: q.name, Group: "workers", Consumer: rand.Text(),
		Concurrency: 50, MinIdle: 3 * time.Second, KindField: q.kind, OnError: func(_ context.Context, err error) {
			if q.told != nil {
				q.told(err)
			}
		},
	}
	if q.single {
		retries.Concurrency = 1
	}
	job := func(ctx context.Context, msg redis.XMessage) error {
		return handle(ctx, msg.Values["job"].(string)) //nolint:forcetypeassert // see Submit
	}
	return enginekit.Work(cable, true, func(ctx context.Context) error { return retries.Run(ctx, job) }), nil
}
