package retryriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/seed-5ff3c98e/retry"
)

// metadataKey is where the State is in a job's metadata.
const metadataKey = "retry"

// Configure sets config up so that jobs are retried as p says; nil means the zero
// Policy. It sets RetryPolicy, and puts a plugin before those that are there. The error
// says what is wrong with p, or that config has a RetryPolicy already.
func Configure(config *river.Config, p *retry.Policy) error {
	if config == nil {
		return errors.New("retryriver: config is nil")
	}
	if config.RetryPolicy != nil {
		return fmt.Errorf("retryriver: Config.RetryPolicy is %T: must not be set", config.RetryPolicy)
	}
	if p == nil {
		p = &retry.Policy{}
	}
	if err := p.Validate(); err != nil {
		return fmt.Errorf("retryriver: %w", err)
	}
	a := &adapter{policy: p}
	config.RetryPolicy = a
	config.Plugins = append([]rivertype.Plugin{a}, config.Plugins...)
	return nil
}

// adapter decides in the middleware, which sees the error, and River then asks it for
// the time of the retry, without the error.
type adapter struct {
	river.MiddlewareDefaults

	policy *retry.Policy
	delays sync.Map // job ID → the time.Duration that was decided
}

// stored is the State in a job's metadata.
type stored struct {
	State   retry.State `json:"state"`
	Attempt int         `json:"attempt"` // the last that State knows of
}

// InsertMany keeps River from ending a job before the policy does.
func (a *adapter) InsertMany(
	ctx context.Context, params []*rivertype.JobInsertParams,
	insert func(context.Context) ([]*rivertype.JobInsertResult, error),
) ([]*rivertype.JobInsertResult, error) {
	for _, p := range params {
		p.MaxAttempts = math.MaxInt16 // of the column
	}
	return insert(ctx)
}

// Work runs an attempt.
func (a *adapter) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	state, err := before(job)
	if err != nil {
		return river.JobCancel(err)
	}
	call := &retry.Call{Policy: a.policy, State: state, Stored: true}
	if d, exhausted := call.Exhausted(ctx); exhausted {
		return a.settle(ctx, job, d, d.Err)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, rivertype.ErrJobCancelledRemotely) {
		return cause // the job is not given up
	}
	if !call.Begin(ctx) {
		return call.Err()
	}
	defer func() {
		if r := recover(); r != nil {
			job.MaxAttempts = job.Attempt // and so the panic, which goes on, is River's last
			call.End(retry.MarkFinal(fmt.Errorf("panic: %v", r)))
			panic(r)
		}
	}()
	return a.after(ctx, job, call, work(call.Context())) //nolint:contextcheck // of the attempt, a child of ctx
}

// after decides what follows an attempt.
func (a *adapter) after(ctx context.Context, job *rivertype.JobRow, call *retry.Call, err error) error {
	var snooze *rivertype.JobSnoozeError
	var cancel *rivertype.JobCancelError
	cause := context.Cause(ctx)
	switch {
	case errors.As(err, &snooze):
		call.Abort()
		return err
	case errors.As(err, &cancel):
		call.End(retry.MarkFinal(err))
		return err
	case err != nil && cause != nil && !errors.Is(cause, rivertype.ErrJobCancelledRemotely):
		call.Abort()
		if !a.policy.NonIdempotent {
			set(ctx, stored{call.State, job.Attempt - 1})
			return fmt.Errorf("%w: %w", cause, err) // the cause tells River not to count
		}
		call.Begin(context.WithoutCancel(ctx))
	}
	return a.settle(ctx, job, call.End(err), err)
}

// settle tells River what was decided.
func (a *adapter) settle(ctx context.Context, job *rivertype.JobRow, d retry.Decision, err error) error {
	switch {
	case err == nil:
		return nil
	case d.Retry:
		set(ctx, stored{d.State, job.Attempt})
		a.delays.Store(job.ID, d.DelayCeil(time.Microsecond)) // the column's unit
		return err
	case d.Stop == retry.StopFinal:
		return river.JobCancel(d.Err)
	default:
		job.MaxAttempts = job.Attempt // of this copy: River discards the job
		return d.Err
	}
}

// NextRetry returns when a failed job is due. River asks it without a decision if the
// failure has not reached Work.
func (a *adapter) NextRetry(job *rivertype.JobRow) time.Time {
	if delay, decided := a.delays.LoadAndDelete(job.ID); decided {
		return time.Now().Add(delay.(time.Duration)) //nolint:forcetypeassert // see Store
	}
	state, _ := before(job) // zero if it cannot be read
	return time.Now().Add(a.policy.Delay(retry.State{Failures: state.Failures + 1}))
}

// before returns the State before the attempt in progress.
func before(job *rivertype.JobRow) (retry.State, error) {
	var metadata struct {
		Retry stored `json:"retry"`
	}
	if err := json.Unmarshal(job.Metadata, &metadata); err != nil && len(job.Metadata) > 0 {
		return retry.State{}, fmt.Errorf("retryriver: job %d: metadata: %w", job.ID, err)
	}
	s := metadata.Retry.State
	s.Failures += max(job.Attempt-1-metadata.Retry.Attempt, 0) // of workers that died
	return s, nil
}

// set stores s with the end of the attempt.
func set(ctx context.Context, s stored) {
	_ = river.MetadataSet(ctx, metadataKey, s) // fails only outside of a worker
}
