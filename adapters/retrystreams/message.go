package retrystreams

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// idField is the field of copies, besides three of package engine, for the ID of the message in its
// stream. move.lua knows them too. All others are the user's.
const idField = "retry-id"

var (
	//go:embed take.lua
	takeScript string
	//go:embed hold.lua
	holdScript string
	//go:embed done.lua
	doneScript string
	//go:embed move.lua
	moveScript string
	//go:embed adopt.lua
	adoptScript string

	take, hold  = redis.NewScript(takeScript), redis.NewScript(holdScript)
	done, move  = redis.NewScript(doneScript), redis.NewScript(moveScript)
	adoptCopies = redis.NewScript(adoptScript)
)

// slot returns the key, or part of it, that has a stream and its other keys in one slot of a
// cluster.
func slot(stream string) string {
	if _, tag, open := strings.Cut(stream, "{"); open && strings.Index(tag, "}") > 0 {
		return stream
	}
	return "{" + stream + "}"
}

// message is one delivery of a message.
type message struct {
	redis.XMessage // as its function sees it

	key   string // where it is
	id    string // there
	count int    // of deliveries
	ours  map[string]string
}

// newMessage sorts the fields of a message.
func newMessage(key string, count int, found redis.XMessage) *message {
	m := &message{found, key, found.ID, count, map[string]string{}}
	for _, name := range []string{engine.StateKey, engine.LostKey, idField, engine.ErrorKey} {
		m.ours[name], _ = m.Values[name].(string)
		delete(m.Values, name)
	}
	m.ID = cmp.Or(m.ours[idField], m.id)
	return m
}

// take takes a message that is there, and looks also for one of a dead consumer. If there is
// none, it returns how long to wait for one that is due.
func (w *worker) take(ctx context.Context, look bool) (m *message, pause time.Duration, err error) {
	reply, err := take.Run(ctx, w.Redis, []string{w.Stream, w.retry, w.due},
		w.Group, w.Consumer, w.idle.Milliseconds(), look, w.source.Load()).Result()
	taken, _ := reply.([]any)
	if due, waits := reply.(int64); err != nil || taken == nil {
		if pause = poll; waits && due >= 0 {
			pause = min(poll, time.Duration(max(due, 1))*time.Millisecond)
		}
		return nil, pause, err
	}
	if len(taken) < 5 {
		return nil, poll, fmt.Errorf("the script that takes messages returned %d values: want 5", len(taken))
	}
	key, _ := taken[0].(string)
	id, _ := taken[1].(string)
	count, _ := taken[2].(int64)
	fields, _ := taken[3].([]any)
	next, _ := taken[4].(int64)
	w.source.Store(next)
	if len(fields) == 0 {
		return nil, poll, fmt.Errorf("message %s was deleted from %s before it had ended", id, key)
	}
	values := map[string]any{}
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		values[name] = fields[i+1]
	}
	return newMessage(key, int(count), redis.XMessage{ID: id, Values: values}), 0, nil
}

// script runs a script that has to be run although ctx has ended. After MinIdle, what it would
// say is too late.
func (w *worker) script(
	ctx context.Context, s *redis.Script, limit time.Duration, keys []string, args ...any,
) *redis.Cmd {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return s.Run(ctx, w.Redis, keys, args...)
}

// stored returns the attempt that a message is due for.
func (w *worker) stored(m *message) (job retryjob.Stored, err error) {
	job = retryjob.Stored{Policy: w.Policy, PolicyFor: w.PolicyFor}
	job.Kind, _ = m.Values[cmp.Or(w.KindField, "kind")].(string)
	if _, err = engine.Load(func(name string) string { return m.ours[name] }, &job); err != nil {
		err = fmt.Errorf("message %s: %w", m.ID, err)
	}
	job.Lost += m.count - 1
	return job, err
}

// handle runs the function for a message, and does what follows. The channel tells when the
// message is due again.
func (w *worker) handle(ctx context.Context, m *message) (due <-chan time.Time) {
	outcome := retryjob.Ended
	job, err := w.stored(m)
	if job.Decision.Err = err; err == nil {
		outcome = w.attempt(ctx, m, &job)
	}
	switch outcome {
	case retryjob.Done:
		err = w.script(ctx, done, w.idle, []string{m.key, w.retry}, w.Group, m.id).Err()
	case retryjob.Ended:
		err = w.bury(ctx, m, job.Decision.Err)
	case retryjob.Again, retryjob.Handed, retryjob.Refused:
		if outcome == retryjob.Refused {
			w.failed(ctx, job.Err)
		}
		if err = w.wait(ctx, m, &job); err == nil {
			due = time.After(job.Decision.Delay)
		}
	default:
		err = errors.New("the function has called runtime.Goexit")
	}
	if err == nil {
		err = job.Tell(ctx)
	}
	if err != nil {
		w.failed(ctx, fmt.Errorf("message %s: %w", m.ID, err))
	}
	return due
}

// attempt runs the function, and tells the server that it does. If that fails, the next time may
// not.
func (w *worker) attempt(ctx context.Context, m *message, job *retryjob.Stored) retryjob.Outcome {
	third, over := w.idle/3, &retryjob.Overtime{Most: cmp.Or(w.Overtime, w.idle)}
	defer over.Keep(third, func() {
		_ = w.script(ctx, hold, third, []string{m.key}, w.Group, w.Consumer, m.id, m.count).Err()
	}, func(stuck error) { w.failed(ctx, fmt.Errorf("message %s: %w", m.ID, stuck)) })()
	return engine.Attempt(ctx, job, over.Watch(func(ctx context.Context) error { return w.fn(ctx, m.XMessage) }))
}

// wait has a message come again after the delay of its outcome.
func (w *worker) wait(ctx context.Context, m *message, job *retryjob.Stored) error {
	state, err := job.State.MarshalText()
	if err != nil {
		return err
	}
	delay := engine.Ceil(job.Decision.Delay, time.Millisecond).Milliseconds()
	return w.move(ctx, m, w.retry, delay, engine.StateKey, string(state), engine.LostKey, max(job.Lost, 0))
}

// bury moves a message to the dead letters. It goes without its State, so that it begins anew
// if somebody moves it back.
func (w *worker) bury(ctx context.Context, m *message, reason error) error {
	return w.move(ctx, m, w.dead, -1, engine.ErrorKey, engine.Text(reason.Error(), engine.MaxError))
}

// move moves a message, unless another delivery of it has gone on.
func (w *worker) move(ctx context.Context, m *message, to string, delay int64, fields ...any) error {
	moved, err := w.script(ctx, move, w.idle, []string{m.key, w.retry, to, w.due},
		append([]any{w.Group, w.Consumer, m.id, m.count, delay, idField, m.ID}, fields...)...).Int()
	switch {
	case err != nil:
		return err
	case moved == 0:
		return errors.New("another delivery of the message has gone on")
	case moved < 0:
		return fmt.Errorf("it was deleted from %s before it had ended", m.key)
	}
	return nil
}
