package retrystreams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
)

const (
	defaultMinIdle = 30 * time.Second
	poll           = time.Second     // at least as often is asked what is due
	patience       = 5 * time.Second // for an answer besides what the server waits for
)

// Retries handles the messages of a stream under a policy. A literal with a Redis, a Stream,
// a Group and a Consumer is ready to use.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is in KindField of
	// the message: see [retryjob.PolicyFor]. The method Get of a retrypolicies.Policies is one.
	// A message of a kind without a policy comes again after a second, and OnError is told.
	PolicyFor func(kind string) (*retry.Policy, error)
	KindField string // a field of messages; empty means "kind"

	Redis    redis.UniversalClient
	Stream   string // has to exist
	Group    string // of consumers, has to exist
	Consumer string // the name of this process in the Group; no other process that lives has it

	// Concurrency is how many messages run at a time; 0 or less means 1. No more are taken
	// than run. The client should have two connections more in its PoolSize.
	Concurrency int

	// MinIdle is after which time of silence a consumer counts as dead, and its message is
	// given to another; 0 means 30 seconds. It must not be less than a second. While a message
	// runs, the server hears of it three times in that time.
	MinIdle time.Duration

	// Overtime is how long a message is kept whose fn goes on after its context has ended. 0 means
	// MinIdle. After that OnError is told, another consumer takes the message after MinIdle, and
	// fn keeps its place of the Concurrency until it returns.
	Overtime time.Duration

	// Dead is the stream for messages that are given up. Empty means "{Stream}:Group:dead". In
	// a cluster, it has to be in the slot of Stream.
	Dead string

	// OnError is told what went wrong besides the messages: the server could not be asked or
	// told, a message was deleted before it had ended, no policy is known for a message, the
	// Overtime of one is over. It may be called by several goroutines at once. nil means slog.Default().
	OnError func(ctx context.Context, err error)
}

// Run calls fn, in Concurrency goroutines, for every message until ctx ends. fn gets a child
// of ctx, and a message without the fields that are ours, with the ID that it had in Stream.
// When ctx ends, Run waits for fn, and returns nil. It returns an error if it cannot begin,
// because a field is wrong or the server cannot be asked, or if it cannot go on: the stream or
// the group is gone, or the server refuses its user.
func (r *Retries) Run(ctx context.Context, fn func(context.Context, redis.XMessage) error) error {
	w := &worker{Retries: r, fn: fn, turn: make(chan struct{}, 1)}
	if err := w.check(ctx); ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	} else if err != nil {
		return fmt.Errorf("retrystreams: %s: %w", r.Stream, err)
	}
	ctx, w.stop = context.WithCancelCause(ctx)
	defer w.stop(nil)
	var all sync.WaitGroup
	for range max(r.Concurrency, 1) {
		all.Go(func() { w.loop(ctx) })
	}
	all.Wait()
	if err := context.Cause(ctx); fatal(err) {
		return err
	}
	return nil
}

// Validate reports what is wrong with the fields. Run calls it.
func (r *Retries) Validate() error {
	switch {
	case r.Redis == nil || r.Stream == "" || r.Group == "" || r.Consumer == "":
		return errors.New("the Redis is nil, or Stream, Group or Consumer is empty")
	case r.MinIdle != 0 && r.MinIdle < time.Second:
		return fmt.Errorf("Retries.MinIdle is %v: must be at least 1s", r.MinIdle)
	case r.Overtime < 0:
		return fmt.Errorf("Retries.Overtime is %v: must not be negative", r.Overtime)
	}
	return r.Policy.Validate()
}

// worker is a Run.
type worker struct {
	*Retries

	fn         func(context.Context, redis.XMessage) error
	idle       time.Duration
	retry, due string // keys: the stream of messages that have failed, and when they are due
	dead       string
	stop       context.CancelCauseFunc
	turn       chan struct{} // has a token while a goroutine asks for messages
	source     atomic.Int64  // which messages have their turn, see take.lua
	looked     time.Time     // for messages of dead consumers, by whoever has the turn
}

// check checks the fields and the keys, and makes the group of the retry stream.
func (w *worker) check(ctx context.Context) error {
	switch err := w.Validate(); {
	case err != nil:
		return err
	case w.fn == nil:
		return errors.New("the function is nil")
	}
	w.idle = cmp.Or(w.MinIdle, defaultMinIdle)
	prefix := slot(w.Stream) + ":" + w.Group
	w.retry, w.due, w.dead = prefix+":retry", prefix+":due", cmp.Or(w.Dead, prefix+":dead")
	if err := w.Redis.XPending(ctx, w.Stream, w.Group).Err(); err != nil {
		return err
	}
	err := w.Redis.XGroupCreateMkStream(ctx, w.retry, w.Group, "0").Err()
	if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") { // it exists
		return err
	}
	if err := cmp.Or(w.Redis.XLen(ctx, w.dead).Err(), w.Redis.ZCard(ctx, w.due).Err()); err != nil {
		return err
	}
	return w.adopt(ctx)
}

// adopt makes due the copies that nobody has and nobody waits for.
func (w *worker) adopt(ctx context.Context) (err error) {
	for after := "0-0"; err == nil; {
		after, err = adoptCopies.Run(ctx, w.Redis, []string{w.retry, w.due}, w.Group, after).Text()
	}
	if errors.Is(err, redis.Nil) { // there are no more
		return nil
	}
	return err
}

// fatal reports whether an error of the server does not go away.
func fatal(err error) bool {
	return redis.IsAuthError(err) || redis.IsPermissionError(err) ||
		redis.HasErrorPrefix(err, "NOGROUP") || redis.HasErrorPrefix(err, "WRONGTYPE")
}

// failed tells of an error, and ends Run if it does not go away.
func (w *worker) failed(ctx context.Context, err error) {
	if err = fmt.Errorf("retrystreams: %s: %w", w.Stream, err); fatal(err) {
		w.stop(err)
	} else {
		engine.Report(ctx, w.OnError, err)
	}
}

// loop handles messages, one after the other. One goroutine asks for messages at a time. The
// one that has seen a message fail asks when that is due, too.
func (w *worker) loop(ctx context.Context) {
	var due <-chan time.Time
	for ctx.Err() == nil {
		var m *message
		select {
		case w.turn <- struct{}{}:
			m = w.next(ctx)
			<-w.turn
		case <-due:
			var pause time.Duration
			var err error
			if m, pause, err = w.take(ctx, false); err != nil {
				w.failed(ctx, err)
			}
			due = time.After(pause)
		case <-ctx.Done():
		}
		if m != nil {
			due = w.handle(ctx, m)
		}
	}
}

// next takes a message, or waits for one.
func (w *worker) next(ctx context.Context) *message {
	look := time.Since(w.looked) >= w.idle/10
	m, pause, err := w.take(ctx, look)
	if look && m == nil {
		w.looked = time.Now()
	}
	if m == nil && err == nil {
		var streams []redis.XStream
		block := min(pause, w.idle/10)
		read, cancel := context.WithTimeout(context.WithoutCancel(ctx), block+patience)
		defer cancel()
		streams, err = w.Redis.XReadGroup(read, &redis.XReadGroupArgs{
			Group: w.Group, Consumer: w.Consumer, Streams: []string{w.Stream, ">"}, Count: 1, Block: block,
		}).Result()
		if err == nil {
			m = newMessage(w.Stream, 1, streams[0].Messages[0])
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		w.failed(ctx, err)
		engine.Wait(ctx, poll)
	}
	return m
}
