package retryasynq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// patience is how long Redis may take to answer.
const patience = 10 * time.Second

// MaxRetry is the option to enqueue tasks with, so that the policy has the limit.
func MaxRetry() asynq.Option { return asynq.MaxRetry(math.MaxInt32) }

// Retries makes asynq servers retry tasks as a policy says. It is safe for concurrent use,
// and must not be changed after Configure, which may set up several servers.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is the type of the
	// task: see [retryjob.PolicyFor]. The method Get of a retrypolicies.Policies is one. A
	// task of a kind without a policy comes again after a second.
	PolicyFor func(kind string) (*retry.Policy, error)

	Redis redis.UniversalClient // where the States are; the server may have the same client
}

// Configure sets RetryDelayFunc and IsFailure. The error says what is wrong with r or config.
func (r *Retries) Configure(config *asynq.Config) error {
	switch err := r.Policy.Validate(); {
	case config == nil:
		return errors.New("retryasynq: config is nil")
	case r.Redis == nil:
		return errors.New("retryasynq: Retries.Redis is nil")
	case config.RetryDelayFunc != nil:
		return errors.New("retryasynq: Config.RetryDelayFunc: must not be set")
	case config.IsFailure != nil:
		return errors.New("retryasynq: Config.IsFailure: must not be set, because the policy says what counts")
	case err != nil:
		return fmt.Errorf("retryasynq: %w", err)
	}
	config.RetryDelayFunc = r.delay
	config.IsFailure = func(err error) bool {
		a, ok := errors.AsType[*again](err)
		return !ok || !a.free
	}
	return nil
}

// again is the error of a task that is to be run again. A free one has not been run.
type again struct {
	error
	delay time.Duration
	free  bool
}

// Unwrap returns the error of the attempt.
func (a *again) Unwrap() error { return a.error }

// delay is asked for the wait after an error. n is how often the task was retried. Without a
// policy, or after a panic, the zero Policy decides.
func (r *Retries) delay(n int, err error, task *asynq.Task) (d time.Duration) {
	failed := retry.State{Failures: n + 1}
	defer func() {
		if recover() != nil {
			d = new(retry.Policy).Delay(failed)
		}
		if d > 0 { // asynq knows seconds; no wait stays none
			d = engine.Ceil(d, time.Second)
		}
	}()
	if a, ok := errors.AsType[*again](err); ok {
		return a.delay
	}
	p, _ := retryjob.PolicyFor(task.Type(), r.Policy, r.PolicyFor)
	return p.Delay(failed)
}

// Handler returns a handler that runs next under the policy. An [asynq.ServeMux] can
// have it as middleware: mux.Use(retries.Handler).
func (r *Retries) Handler(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		a, err := r.load(ctx)
		if err != nil {
			return err
		}
		job := retryjob.Stored{Policy: r.Policy, PolicyFor: r.PolicyFor, Kind: task.Type(), State: a.State, Lost: a.retried - a.Retried}
		outcome := job.Attempt(ctx, func(attempt context.Context) error {
			defer func() {
				if ctx.Err() != nil { // asynq has decided already, whatever comes of it
					job.Abort()
				}
			}()
			err := next.ProcessTask(attempt, task)
			if errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask) {
				return retry.MarkFinal(err)
			}
			return err
		})
		defer engine.Tell(ctx, &job) // asynq stores it after the handler
		switch limit, _ := asynq.GetMaxRetry(ctx); {
		case job.Cause == retryjob.NoPolicy, job.Cause == retryjob.Held:
			return &again{job.Err, job.Decision.Delay, true}
		case outcome == retryjob.Handed:
			return job.Err
		case outcome == retryjob.Done, outcome == retryjob.Ended:
			return a.end(ctx, job.Decision.Err)
		case a.retried >= limit:
			job.End(fmt.Errorf("retryasynq: the task was enqueued with MaxRetry %d, not with retryasynq.MaxRetry: %w", limit, job.Err))
			return a.end(ctx, job.Decision.Err)
		}
		a.store(ctx, stored{job.State, a.retried + 1})
		return &again{job.Err, job.Decision.Delay, false}
	})
}

// attempt is an attempt at a task, with what was stored before it.
type attempt struct {
	*Retries
	stored
	key     string
	retried int
}

// stored is the State in Redis.
type stored struct {
	State   retry.State `json:"state"`
	Retried int         `json:"retried"` // at the attempt after; others since were lost
}

// load finds the State before the attempt.
func (r *Retries) load(ctx context.Context) (*attempt, error) {
	id, ok := asynq.GetTaskID(ctx)
	if !ok {
		return nil, fmt.Errorf("retryasynq: not in the context of a task: %w", asynq.SkipRetry)
	}
	queue, _ := asynq.GetQueueName(ctx)
	a := &attempt{Retries: r, key: "retryasynq:" + queue + ":" + id}
	if a.retried, _ = asynq.GetRetryCount(ctx); a.retried == 0 {
		return a, nil
	}
	asked, end := context.WithTimeout(ctx, patience)
	defer end()
	text, err := r.Redis.Get(asked, a.key).Bytes()
	if errors.Is(err, redis.Nil) {
		return a, nil
	} else if err != nil {
		return nil, &again{fmt.Errorf("retryasynq: %s: %w", a.key, err), time.Second, true}
	} else if err := json.Unmarshal(text, &a.stored); err != nil {
		return nil, fmt.Errorf("retryasynq: %s: %w: %w", a.key, err, asynq.SkipRetry)
	}
	if a.Retried > a.retried || a.Retried < 0 { // of an earlier task with the same ID, or of a stranger
		a.stored = stored{}
	}
	return a, nil
}

// store stores s, for as long as asynq keeps archived tasks. If it fails, all of Retried counts.
func (a *attempt) store(ctx context.Context, s stored) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer end()
	if text, err := json.Marshal(s); err == nil {
		a.Redis.Set(ctx, a.key, text, 90*24*time.Hour)
	}
}

// end ends the task with an error, or nil.
func (a *attempt) end(ctx context.Context, err error) error {
	over := err == nil || errors.Is(err, asynq.RevokeTask)
	if a.retried > 0 && over {
		ctx, end := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer end()
		a.Redis.Del(ctx, a.key) // if this fails, it expires
	} else if a.retried > 0 { // is archived, and begins anew if somebody runs it again
		a.store(ctx, stored{Retried: a.retried})
	}
	if over || errors.Is(err, asynq.SkipRetry) {
		return err
	}
	return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
}
