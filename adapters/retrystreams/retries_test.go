package retrystreams_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrystreams"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func retriesOf(q *queue, p *retry.Policy) *retrystreams.Retries {
	return &retrystreams.Retries{
		Policy: p, Redis: q.client, Stream: q.name, Group: "workers", Consumer: rand.Text(), MinIdle: time.Second,
	}
}

// start starts a Run of one message at a time.
func start(t *testing.T, r *retrystreams.Retries, fn func(context.Context, redis.XMessage) error) *enginekit.Run {
	t.Helper()
	return enginekit.Start(t, func(ctx context.Context, onError func(context.Context, error)) error {
		r.OnError = onError
		return r.Run(ctx, fn)
	})
}

// dead waits for a message that was given up.
func (q *queue) dead(t *testing.T) (m redis.XMessage) {
	t.Helper()
	require.Eventually(t, func() bool {
		all, err := q.client.XRange(t.Context(), q.key("dead"), "-", "+").Result()
		if len(all) > 0 {
			m = all[0]
		}
		return assert.NoError(t, err) && len(all) > 0
	}, 30*time.Second, 10*time.Millisecond)
	return m
}

// add submits a message with fields of the test's choice.
func (q *queue) add(t *testing.T, fields ...string) (id string) {
	t.Helper()
	return testkit.Must(q.client.XAdd(t.Context(), &redis.XAddArgs{Stream: q.name, Values: fields}).Result())(t)
}

func fail(context.Context, redis.XMessage) error { return assert.AnError }

func TestRefuses(t *testing.T) {
	t.Parallel()
	q := open(t)
	user := *q.client.Options()
	user.Username, user.Password = "nobody", "wrong"
	refused := redis.NewClient(&user)
	t.Cleanup(func() { _ = refused.Close() })
	for want, change := range map[string]func(*retrystreams.Retries){
		"the Redis is nil, or Stream, Group or Consumer is empty": func(r *retrystreams.Retries) { r.Consumer = "" },
		"-1s": func(r *retrystreams.Retries) { r.Policy = &retry.Policy{MaxDelay: -time.Second} },
		"Retries.MinIdle is 999ms: must be at least 1s":                     func(r *retrystreams.Retries) { r.MinIdle = 999 * time.Millisecond },
		"NOGROUP No such key 'enginetest-none' or consumer group 'workers'": func(r *retrystreams.Retries) { r.Stream = "enginetest-none" },
		"NOGROUP No such key '" + q.name + "' or consumer group 'none'":     func(r *retrystreams.Retries) { r.Group = "none" },
		"WRONGPASS": func(r *retrystreams.Retries) { r.Redis = refused },
	} {
		r := retriesOf(q, nil)
		change(r)
		err := r.Run(t.Context(), fail)
		require.ErrorContains(t, err, "retrystreams: "+r.Stream+": ")
		assert.ErrorContains(t, err, want)
	}
	assert.Empty(t, testkit.Must(q.client.Keys(t.Context(), "*enginetest-none*").Result())(t))
}

// A server that refuses the user of a Run ends it. The message is not lost.
func TestRefusedLater(t *testing.T) {
	t.Parallel()
	q := open(t)
	name := q.name + "-user"
	require.NoError(t, q.client.Do(t.Context(), "ACL", "SETUSER", name, "on", ">secret", "~*", "+@all").Err())
	user := *q.client.Options()
	user.Username, user.Password = name, "secret"
	client := redis.NewClient(&user)
	defer func() { _ = client.Close() }()
	r := retriesOf(q, nil)
	r.Redis = client
	id := q.add(t, "job", "a")
	s := start(t, r, func(context.Context, redis.XMessage) error {
		assert.NoError(t, q.client.Do(context.Background(), "ACL", "DELUSER", name).Err())
		return nil
	})
	require.ErrorContains(t, <-s.Over, "WRONGPASS")
	events := &retrytest.Recorder{}
	s = start(t, retriesOf(q, &retry.Policy{MaxAttempts: 2, Observer: events.Observer()}), func(_ context.Context, msg redis.XMessage) error {
		assert.Equal(t, id, msg.ID)
		return assert.AnError
	})
	q.dead(t)
	s.Stop()
	events.Expect(t, "2: gave up (attempts): "+assert.AnError.Error())
}

// A State of somebody else ends the message, or is none.
func TestStates(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"":                               "failed after 3 attempts: " + assert.AnError.Error(), // from a publisher that does not know us
		"f=1":                            "failed after 3 attempts: " + assert.AnError.Error(),
		"f=1 x=2 t=2026-01-02T03:04:05Z": "failed after 3 attempts: " + assert.AnError.Error(), // of another version
		"f=9999":                         "failed after 9999 attempts",
		"f=many":                         `f=many: strconv.Atoi: parsing "many": invalid syntax`,
		"f=-1":                           "failures: -1: must not be negative",
		"\xff\x00":                       "want key=value",
		"f=99999999999999999999":         "value out of range",
	} {
		q := open(t)
		var attempts atomic.Int64
		r := retriesOf(q, &retry.Policy{Backoff: retry.Constant(0)})
		r.MinIdle = 10 * time.Second // longer than a busy machine stalls
		s := start(t, r, func(context.Context, redis.XMessage) error {
			attempts.Add(1)
			return assert.AnError
		})
		id := q.add(t, "retry-state", state, "job", "a")
		m := q.dead(t)
		s.Stop()
		assert.Contains(t, m.Values["retry-error"], want, state)
		assert.Equal(t, map[string]any{"job": "a", "retry-id": id, "retry-error": m.Values["retry-error"]}, m.Values)
		assert.Equal(t, map[string]int64{"": 3, "f=1": 2, "f=1 x=2 t=2026-01-02T03:04:05Z": 2}[state], attempts.Load(), state)
		assert.Empty(t, s.Faults)
	}
}

func TestNoPolicy(t *testing.T) {
	t.Parallel()
	q := open(t)
	q.kind = "what"
	var said enginekit.Said
	q.told = said.Hear
	enginekit.NoPolicy(t, q, true, said.Next)
	assert.True(t, said.Ever("the function has called runtime.Goexit"))
}

// What was given up and is moved back begins anew. The function sees the message as it was,
// with the ID that it had at first, and other groups do not see the copies.
func TestCopies(t *testing.T) {
	t.Parallel()
	q := open(t)
	binary := "\xff\x00\"\n"
	id := q.add(t, "b", binary, "a", "1", binary, "x", "retry-mine", "kept")
	require.NoError(t, q.client.XGroupCreate(t.Context(), q.name, "others", "0").Err())
	p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}
	s := start(t, retriesOf(q, p), func(_ context.Context, msg redis.XMessage) error {
		assert.Equal(t, redis.XMessage{ID: id, Values: map[string]any{"b": binary, "a": "1", binary: "x", "retry-mine": "kept"}}, msg)
		return assert.AnError
	})
	for i := range 3 {
		q.dead(t)
		assert.EqualValues(t, i+1, testkit.Must(q.client.XLen(t.Context(), q.name).Result())(t))
		raw := testkit.Must(q.client.Do(t.Context(), "XRANGE", q.key("dead"), "-", "+").Slice())(t)
		assert.Equal(t, []any{
			"retry-id", id, "retry-error", "failed after 2 attempts: " + assert.AnError.Error(), "b", binary, "a", "1", binary, "x", "retry-mine", "kept",
		}, raw[0].([]any)[1])
		require.NoError(t, q.client.Del(t.Context(), q.key("dead")).Err())
		require.NoError(t, q.client.XAdd(t.Context(), &redis.XAddArgs{Stream: q.name, Values: raw[0].([]any)[1]}).Err())
	}
	s.Stop()
}

// What has succeeded stays in its stream, where other groups may still read it. A copy is
// nobody's, and goes.
func TestKept(t *testing.T) {
	t.Parallel()
	q := open(t)
	q.add(t, "job", "at once")
	q.add(t, "job", "later")
	var failed atomic.Bool
	var succeeded atomic.Int64
	s := start(t, retriesOf(q, &retry.Policy{Backoff: retry.Constant(0)}), func(_ context.Context, msg redis.XMessage) error {
		if msg.Values["job"] == "later" && !failed.Swap(true) {
			return assert.AnError
		}
		succeeded.Add(1)
		return nil
	})
	copies := q.key("retry")
	require.Eventually(t, func() bool {
		pending := 0
		for _, stream := range []string{q.name, copies} {
			p, err := q.client.XPending(t.Context(), stream, "workers").Result()
			if err != nil { // Run has not begun
				return false
			}
			pending += int(p.Count)
		}
		return succeeded.Load() == 2 && pending == 0
	}, 10*time.Second, time.Millisecond)
	s.Stop()
	assert.EqualValues(t, 2, q.client.XLen(t.Context(), q.name).Val())
	assert.Zero(t, q.client.XLen(t.Context(), copies).Val())
}

// A large message and a long error go where they should.
func TestLarge(t *testing.T) {
	t.Parallel()
	q := open(t)
	large := strings.Repeat("x", 8<<20)
	s := start(t, retriesOf(q, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}), func(_ context.Context, msg redis.XMessage) error {
		assert.True(t, bytes.Equal([]byte(large), []byte(msg.Values["body"].(string))))
		return errors.New(strings.Repeat("ä", 100_000))
	})
	args := []string{"body", large}
	for i := range 3000 {
		args = append(args, fmt.Sprint("field-", i), "x")
	}
	q.add(t, args...)
	m := q.dead(t)
	s.Stop()
	text := m.Values["retry-error"].(string)
	assert.Greater(t, len(text), 8000)
	assert.Less(t, len(text), 9000)
	assert.True(t, utf8.ValidString(text))
	assert.Len(t, m.Values, 3003)
	assert.Empty(t, s.Faults)
}

// A message that runs for longer than MinIdle stays with its worker. If the server has not
// heard of it for that long, another worker gets it, and the first has no say any more.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	q, events := open(t), &retrytest.Recorder{}
	q.ids["a"] = q.add(t, "job", "a")
	p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Hour), Observer: events.Observer()}
	worker := func(fn func() error) *enginekit.Run {
		return start(t, retriesOf(q, p), func(context.Context, redis.XMessage) error { return fn() })
	}
	first, second := enginekit.Overtaken(t, 2500*time.Millisecond, worker, func() error { return q.repeat(t.Context(), "a") },
		"another delivery of the message has gone on")
	assert.Contains(t, q.dead(t).Values["retry-error"], "failed after 2 attempts")
	first.Stop()
	second.Stop()
}

// Who deletes messages that have not ended is told.
func TestDeleted(t *testing.T) {
	t.Parallel()
	q := open(t)
	a := q.add(t, "job", "a")
	s := start(t, retriesOf(q, nil), func(context.Context, redis.XMessage) error {
		assert.NoError(t, q.client.XTrimMaxLen(context.Background(), q.name, 0).Err())
		time.Sleep(500 * time.Millisecond) // the server hears of the message once more
		return assert.AnError
	})
	require.ErrorContains(t, s.Fault(), "message "+a+": it was deleted from "+q.name+" before it had ended")
	s.Stop()
	assert.Zero(t, q.client.XPending(t.Context(), q.name, "workers").Val().Count)
	assert.Empty(t, s.Faults)

	b := q.add(t, "job", "b")
	s = start(t, retriesOf(q, &retry.Policy{Backoff: retry.Constant(100 * time.Millisecond)}), fail)
	require.Eventually(t, func() bool { return q.client.XTrimMaxLen(t.Context(), q.key("retry"), 0).Val() > 0 }, 10*time.Second, time.Millisecond)
	require.ErrorContains(t, s.Fault(), "was deleted from "+q.key("retry")+" before it had ended", b)
	s.Stop()
}

// A stream that is gone ends Run.
func TestGone(t *testing.T) {
	t.Parallel()
	q := open(t)
	s := start(t, retriesOf(q, nil), fail)
	require.Eventually(t, func() bool { return q.client.Exists(t.Context(), q.key("retry")).Val() > 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, q.client.Del(t.Context(), q.name).Err())
	require.ErrorContains(t, <-s.Over, "NOGROUP")
}

// A copy without its group or its consumer comes again when the next Run begins, whether it
// waited or ran.
func TestRemovedGroup(t *testing.T) {
	t.Parallel()
	for what, remove := range map[string]func(*queue, string) error{
		"group": func(q *queue, _ string) error {
			return q.client.XGroupDestroy(context.Background(), q.key("retry"), "workers").Err()
		},
		"consumer": func(q *queue, name string) error {
			return q.client.XGroupDelConsumer(context.Background(), q.key("retry"), "workers", name).Err()
		},
	} {
		q := open(t)
		for i := range 150 { // more than one look finds
			q.add(t, "job", fmt.Sprint(i))
		}
		p := &retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{0, 700 * time.Millisecond}, Jitter: retry.NoJitter}
		r := retriesOf(q, p)
		var calls, removed atomic.Int64
		s := start(t, r, func(context.Context, redis.XMessage) error {
			if calls.Add(1) == 200 { // some wait for their third attempt
				assert.NoError(t, remove(q, r.Consumer), what)
				removed.Store(1)
			}
			return assert.AnError
		})
		require.Eventually(t, func() bool { return removed.Load() > 0 }, 10*time.Second, time.Millisecond)
		s.Cancel()
		if err := <-s.Over; err != nil { // it may have met the group that is gone
			t.Log(err)
		}
		s = start(t, retriesOf(q, p), fail)
		require.Eventually(t, func() bool { return q.client.XLen(t.Context(), q.key("dead")).Val() == 150 }, 20*time.Second, 10*time.Millisecond, what)
		s.Stop()
		assert.Zero(t, q.client.XLen(t.Context(), q.key("retry")).Val(), what)
	}
}

// A key that somebody has made another thing ends Run. What has failed meanwhile is not lost,
// and not there twice.
func TestWrongType(t *testing.T) {
	t.Parallel()
	q := open(t)
	q.add(t, "job", "a")
	s := start(t, retriesOf(q, nil), func(context.Context, redis.XMessage) error {
		assert.NoError(t, q.client.Set(context.Background(), q.key("due"), "x", 0).Err())
		return assert.AnError
	})
	require.ErrorContains(t, <-s.Over, "WRONGTYPE")
	assert.Zero(t, q.client.XLen(t.Context(), q.key("retry")).Val())
	require.ErrorContains(t, retriesOf(q, nil).Run(t.Context(), fail), "WRONGTYPE")
	require.NoError(t, q.client.Del(t.Context(), q.key("due")).Err())
	s = start(t, retriesOf(q, &retry.Policy{MaxAttempts: 2}), fail)
	assert.Contains(t, q.dead(t).Values["retry-error"], "failed after 2 attempts")
	s.Stop()
	require.NoError(t, q.client.Set(t.Context(), q.key("dead"), "x", 0).Err())
	require.ErrorContains(t, retriesOf(q, nil).Run(t.Context(), fail), "WRONGTYPE")
}

// Messages that are always due do not keep new ones from their turn.
func TestTurns(t *testing.T) {
	t.Parallel()
	q := open(t)
	q.add(t, "job", "fails")
	q.add(t, "job", "fails")
	var failed, before atomic.Int64
	fresh := make(chan struct{})
	p := &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(0)}
	s := start(t, retriesOf(q, p), func(_ context.Context, m redis.XMessage) error {
		if m.Values["job"] == "new" {
			close(fresh)
			return nil
		}
		if failed.Add(1) == 10 {
			q.add(t, "job", "new")
		}
		select {
		case <-fresh:
		default:
			before.Add(1)
		}
		return assert.AnError
	})
	<-fresh
	s.Stop()
	assert.LessOrEqual(t, before.Load(), int64(12))
}

// All keys are in the slot of the stream.
func TestSlot(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]string{
		"jobs": "{jobs}", "a:{tenant}:jobs": "a:{tenant}:jobs", "a{": "{a{}",
	} {
		assert.Equal(t, want, retrystreams.Slot(stream))
	}
}
