package retryasynq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/seed-5ff3c98e/retry"
)

// lifetime is how long the State of a task is kept that nobody runs any more: as long as
// asynq keeps archived tasks.
const lifetime = 90 * 24 * time.Hour

// MaxRetry is the option to enqueue tasks with: asynq has no limit of its own, and the
// policy has one.
func MaxRetry() asynq.Option { return asynq.MaxRetry(math.MaxInt32) }

// Retries has asynq servers follow a policy. Make one with [New]. It is safe for
// concurrent use.
type Retries struct {
	policy *retry.Policy
	redis  redis.UniversalClient
}

// New returns the Retries of p; nil means the zero Policy. opt is that of the server.
// Close it after the server. The error says what is wrong with p.
func New(opt asynq.RedisConnOpt, p *retry.Policy) (*Retries, error) {
	if p == nil {
		p = &retry.Policy{}
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retryasynq: %w", err)
	}
	if opt == nil {
		return nil, errors.New("retryasynq: the RedisConnOpt is nil")
	}
	client, ok := opt.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		return nil, fmt.Errorf("retryasynq: %T does not make a redis.UniversalClient", opt)
	}
	return &Retries{policy: p, redis: client}, nil
}

// Close closes the connections to Redis.
func (r *Retries) Close() error { return r.redis.Close() }

// Configure sets RetryDelayFunc and IsFailure. The error names what config has that would
// overrule the policy.
func (r *Retries) Configure(config *asynq.Config) error {
	switch {
	case config == nil:
		return errors.New("retryasynq: config is nil")
	case config.RetryDelayFunc != nil:
		return errors.New("retryasynq: Config.RetryDelayFunc: must not be set")
	case config.IsFailure != nil:
		return errors.New("retryasynq: Config.IsFailure: must not be set, because the policy says what counts")
	}
	config.RetryDelayFunc = r.delay
	config.IsFailure = counts
	return nil
}

// unread is the error of a task whose State cannot be read. It has not been run.
type unread struct{ error }

// counts tells asynq whether to count an error.
func counts(err error) bool {
	_, not := errors.AsType[*unread](err)
	return !not
}

// decided is the error of an attempt that is to be repeated.
type decided struct {
	error

	delay time.Duration
}

// Unwrap returns the error of the attempt.
func (d *decided) Unwrap() error { return d.error }

// delay is asked for the wait after an error. n is how often the task was retried.
func (r *Retries) delay(n int, err error, _ *asynq.Task) time.Duration {
	if d, ok := errors.AsType[*decided](err); ok {
		return d.delay
	}
	return ceil(retry.Decision{Delay: r.policy.Delay(retry.State{Failures: n + 1})})
}

// ceil rounds up to what asynq knows. No wait stays none.
func ceil(d retry.Decision) time.Duration {
	if d.Delay <= 0 {
		return 0
	}
	return d.DelayCeil(time.Second)
}

// Handler returns a handler that runs next under the policy. A [asynq.ServeMux] can
// have it as middleware: mux.Use(retries.Handler).
func (r *Retries) Handler(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) (err error) {
		a := &attempt{Retries: r}
		defer func() {
			if r := recover(); r != nil { // of a function of the policy
				err = a.end(ctx, panicked(r))
			}
		}()
		if err := a.load(ctx); err != nil {
			return err
		}
		if d, exhausted := a.call.Lost(ctx, a.lost); exhausted {
			return a.end(ctx, d.Err)
		}
		if !a.call.Begin(ctx) {
			return cmp.Or(a.call.Err(), context.Cause(ctx)) // asynq does not look at the cause
		}
		return a.after(ctx, a.run(next, task)) //nolint:contextcheck // of the attempt, a child of ctx
	})
}

// attempt is an attempt at a task.
type attempt struct {
	*Retries

	call    retry.Call
	key     string
	retried int
	lost    int // attempts since the State was stored
}

// stored is the State in Redis.
type stored struct {
	State   retry.State `json:"state"`
	Retried int         `json:"retried"` // at the attempt after
}

// load finds the State before the attempt.
func (a *attempt) load(ctx context.Context) error {
	id, ok := asynq.GetTaskID(ctx)
	if !ok {
		return fmt.Errorf("retryasynq: not in the context of a task: %w", asynq.SkipRetry)
	}
	queue, _ := asynq.GetQueueName(ctx)
	a.key = "retryasynq:" + queue + ":" + id
	a.retried, _ = asynq.GetRetryCount(ctx)
	a.call.Policy, a.call.Stored = a.policy, true
	if a.retried == 0 {
		return nil
	}
	var s stored
	switch text, err := a.redis.Get(ctx, a.key).Bytes(); {
	case errors.Is(err, redis.Nil):
	case err != nil:
		return &unread{fmt.Errorf("retryasynq: %s: %w", a.key, err)}
	default:
		if err := json.Unmarshal(text, &s); err != nil {
			return fmt.Errorf("retryasynq: %s: %w: %w", a.key, err, asynq.SkipRetry)
		}
	}
	if s.Retried > a.retried { // of an earlier task with the same ID
		s = stored{}
	}
	a.call.State = s.State
	a.lost = max(a.retried-s.Retried, 0)
	return nil
}

// run runs the handler. A panic is an error that ends the task.
func (a *attempt) run(next asynq.Handler, task *asynq.Task) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = retry.MarkFinal(panicked(r))
		}
	}()
	return next.ProcessTask(a.call.Context(), task)
}

// panicked returns the error of a panic.
func panicked(r any) error { return fmt.Errorf("panic: %v\n\n%s", r, debug.Stack()) }

// after decides what follows.
func (a *attempt) after(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil: // asynq has decided already, whatever err is
		a.call.Abort()
		return err
	case errors.Is(err, asynq.SkipRetry), errors.Is(err, asynq.RevokeTask):
		a.call.End(retry.MarkFinal(err))
		return a.end(ctx, err)
	}
	d := a.call.End(err)
	limit, _ := asynq.GetMaxRetry(ctx)
	switch {
	case !d.Retry:
		return a.end(ctx, d.Err)
	case a.retried >= limit:
		return a.end(ctx, fmt.Errorf("retryasynq: the task was enqueued with MaxRetry %d, not with retryasynq.MaxRetry: %w",
			limit, err))
	}
	a.store(ctx, stored{d.State, a.retried + 1})
	return &decided{err, ceil(d)}
}

// store stores s. If it fails, all of Retried counts.
func (a *attempt) store(ctx context.Context, s stored) {
	if text, err := json.Marshal(s); err == nil {
		a.redis.Set(context.WithoutCancel(ctx), a.key, text, lifetime)
	}
}

// end ends the task with an error, or nil.
func (a *attempt) end(ctx context.Context, err error) error {
	over := err == nil || errors.Is(err, asynq.RevokeTask)
	switch {
	case a.retried == 0:
	case over:
		a.redis.Del(context.WithoutCancel(ctx), a.key) // if this fails, it expires
	default: // is archived, and begins anew if somebody runs it again
		a.store(ctx, stored{Retried: a.retried})
	}
	if over || errors.Is(err, asynq.SkipRetry) {
		return err
	}
	return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
}
