package retryriver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/seed-5ff3c98e/retry"
)

// keys is how many keys of a job's metadata have States, in turns. If the answer of the
// database is lost, River merges the metadata of an attempt once more, up to half a minute
// later, and whatever later attempts have stored meanwhile.
const keys = 8

// key is where the State after an attempt is in a job's metadata.
func key(attempt int) string { return "retry_" + strconv.Itoa(attempt%keys) }

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
	Attempt int         `json:"attempt"`           // the last that State knows of
	Rescues int         `json:"rescues,omitempty"` // that State knows of
	Ended   end         `json:"ended,omitempty"`   // with Attempt
}

// end is how a job has ended.
type end string

const (
	completed end = "completed"
	cancelled end = "cancelled"
	discarded end = "discarded"
)

// errEnded is the error of a job that had ended, when River could not store that.
var errEnded = errors.New("retryriver: the job had ended, and River could not store with which error")

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
	before, lost, err := read(job)
	if err != nil {
		return river.JobCancel(err)
	}
	t := &attempt{adapter: a, job: job, before: before}
	t.call = retry.Call{Policy: a.policy, State: before.State, Stored: true}
	defer func() {
		if r := recover(); r != nil { // also of a function of the policy
			job.MaxAttempts = job.Attempt // and so the panic, which goes on, is River's last
			t.over(ctx, t.call.State, discarded)
			t.call.End(retry.MarkFinal(fmt.Errorf("panic: %v", r)))
			panic(r)
		}
	}()
	if before.Ended != "" { // and River has not stored it
		return t.end(ctx, before.State, before.Ended, errEnded)
	}
	if d, exhausted := t.call.Lost(ctx, lost); exhausted {
		return t.settle(ctx, d, d.Err)
	}
	if !t.call.Begin(ctx) {
		return cmp.Or(t.call.Err(), context.Cause(ctx)) // the cause tells River not to count
	}
	return t.after(ctx, work(t.call.Context())) //nolint:contextcheck // of the attempt, a child of ctx
}

// attempt is an attempt at a job.
type attempt struct {
	*adapter

	job    *rivertype.JobRow
	before stored
	call   retry.Call
}

// after decides what follows an attempt.
func (t *attempt) after(ctx context.Context, err error) error {
	var snooze *rivertype.JobSnoozeError
	var cancel *rivertype.JobCancelError
	switch {
	case errors.As(err, &snooze):
		t.call.Abort()
		return err
	case errors.As(err, &cancel):
		t.over(ctx, t.call.End(retry.MarkFinal(err)).State, cancelled)
		return err
	case errors.Is(context.Cause(ctx), rivertype.ErrJobCancelledRemotely): // and ends
	case t.call.Interrupted(err):
		t.store(ctx, stored{State: t.call.State, Attempt: t.job.Attempt - 1})
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	d := t.call.End(err)
	if ctx.Err() != nil { // River would not count an error that is a canceled context
		err, d.Err = opaque(err), opaque(d.Err)
	}
	return t.settle(ctx, d, err)
}

// opaque keeps only the text of an error.
func opaque(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

// settle tells River what was decided.
func (t *attempt) settle(ctx context.Context, d retry.Decision, err error) error {
	if d.Retry {
		t.store(ctx, stored{State: d.State, Attempt: t.job.Attempt})
		t.delays.Store(t.job.ID, d.DelayCeil(time.Microsecond)) // the column's unit
		return err
	}
	switch {
	case d.Err == nil:
		return t.end(ctx, d.State, completed, nil)
	case d.Stop == retry.StopFinal:
		return t.end(ctx, d.State, cancelled, d.Err)
	default:
		return t.end(ctx, d.State, discarded, d.Err)
	}
}

// end has River end the job.
func (t *attempt) end(ctx context.Context, s retry.State, how end, err error) error {
	t.over(ctx, s, how)
	switch how {
	case completed:
		return nil
	case cancelled:
		return river.JobCancel(err)
	default:
		t.job.MaxAttempts = t.job.Attempt // of this copy: as there is an error, River discards the job
		return err
	}
}

// over notes that the job ends. It begins anew if somebody has River retry it.
func (t *attempt) over(ctx context.Context, s retry.State, how end) {
	if t.job.Attempt > 1 || how != completed {
		t.store(ctx, stored{State: s, Attempt: t.job.Attempt, Ended: how})
	}
}

// store stores s with the end of the attempt.
func (t *attempt) store(ctx context.Context, s stored) {
	s.Rescues = t.before.Rescues
	_ = river.MetadataSet(ctx, key(s.Attempt), s) // fails only outside of a worker
}

// NextRetry returns when a failed job is due. River asks it without a decision if the
// failure has not reached Work.
func (a *adapter) NextRetry(job *rivertype.JobRow) time.Time {
	if delay, decided := a.delays.LoadAndDelete(job.ID); decided {
		return time.Now().Add(delay.(time.Duration)) //nolint:forcetypeassert // see Store
	}
	s, _, _ := read(job) // zero if it cannot be read
	return time.Now().Add(a.policy.Delay(retry.State{Failures: s.State.Failures + max(job.Attempt-s.Attempt, 1)}))
}

// read returns what is stored, with the rescues until now, and how many attempts were lost
// since then: River has rescued the job from a worker that died, or has put it back without
// the outcome of an attempt. What River has an error for and no State has not reached Work.
func read(job *rivertype.JobRow) (s stored, lost int, err error) {
	metadata := map[string]json.RawMessage{}
	if len(job.Metadata) > 0 {
		err = json.Unmarshal(job.Metadata, &metadata)
	}
	for n := range keys {
		if text, ok := metadata[key(n)]; ok && err == nil {
			var one stored
			if err = json.Unmarshal(text, &one); one.Attempt >= s.Attempt {
				s = one
			}
		}
	}
	rescues := 0
	if text, ok := metadata["river:rescue_count"]; ok && err == nil {
		err = json.Unmarshal(text, &rescues)
	}
	if err != nil {
		return stored{}, 0, fmt.Errorf("retryriver: job %d: metadata: %w", job.ID, err)
	}
	lost = max(rescues-s.Rescues, 0)
	if s.anew(job, lost) {
		s.State, s.Ended = retry.State{}, ""
	}
	s.Rescues += lost
	return s, lost + untold(job, s.Attempt), nil
}

// anew reports whether the job has ended, and somebody has River retry it. Otherwise River
// has stored that there is an end, and not the end itself: the job was put back before, or
// was rescued, which River has an error of.
func (s *stored) anew(job *rivertype.JobRow, rescued int) bool {
	told, later := false, 0
	for _, e := range job.Errors {
		told = told || e.Attempt == s.Attempt
		if e.Attempt > s.Attempt {
			later++
		}
	}
	return s.Ended != "" && rescued <= later && (told || s.Ended == completed)
}

// untold returns how many attempts after one River has no error for. If the answer of the
// database is lost, River stores an outcome again, and does not ask whether the job is at
// another attempt by then: the job runs again, and the other outcome is not stored.
func untold(job *rivertype.JobRow, after int) (n int) {
	if len(job.Errors) == 0 { // a job that had succeeded at once is run again by hand
		return 0
	}
	for attempt := after + 1; attempt < job.Attempt; attempt++ {
		if !slices.ContainsFunc(job.Errors, func(e rivertype.AttemptError) bool { return e.Attempt == attempt }) {
			n++
		}
	}
	return n
}
