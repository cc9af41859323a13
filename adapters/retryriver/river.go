package retryriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// A State is in a job's metadata at key + attempt % keys. If the answer of the database is
// lost, River merges the metadata of an attempt once more, up to half a minute later, even if
// later attempts have stored theirs meanwhile.
const key, keys = "retry_", 8

// Retries makes River retry jobs as a policy says. It must not be changed after Configure,
// which may set up several clients.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is the Kind of the
	// arguments: see [retryjob.PolicyFor]. The method Get of a retrypolicies.Policies is one.
	// A job of a kind without a policy fails for River, and is tried again.
	PolicyFor func(kind string) (*retry.Policy, error)
}

// Configure sets RetryPolicy, and puts a plugin before the others. The error says what is
// wrong with the Policy, or that config has a RetryPolicy already.
func (r *Retries) Configure(config *river.Config) error {
	switch err := r.Policy.Validate(); {
	case config == nil:
		return errors.New("retryriver: config is nil")
	case config.RetryPolicy != nil:
		return fmt.Errorf("retryriver: Config.RetryPolicy is %T: must not be set", config.RetryPolicy)
	case err != nil:
		return fmt.Errorf("retryriver: %w", err)
	}
	a := &adapter{Retries: r}
	config.RetryPolicy = a
	config.Plugins = append([]rivertype.Plugin{a}, config.Plugins...)
	return nil
}

// adapter decides in the middleware, which sees the error, and River then asks it for
// the time of the retry, without the error.
type adapter struct {
	river.PluginDefaults
	*Retries
	delays sync.Map // job ID → the time.Duration that was decided
}

// stored is the State in a job's metadata.
type stored struct {
	State   retry.State        `json:"state"`
	Attempt int                `json:"attempt"`           // the last that State knows of
	Rescues int                `json:"rescues,omitempty"` // that State knows of
	Ended   rivertype.JobState `json:"ended,omitempty"`   // with Attempt
}

// InsertBegin keeps River from ending a job before the policy does.
func (a *adapter) InsertBegin(_ context.Context, params *rivertype.JobInsertParams) error {
	params.MaxAttempts = math.MaxInt16 // of the column
	return nil
}

// Work runs an attempt.
func (a *adapter) Work(ctx context.Context, row *rivertype.JobRow, work func(context.Context) error) error {
	s, lost, err := read(row)
	switch {
	case err != nil:
		return river.JobCancel(err)
	case s.Ended != "": // and River has not stored it
		return s.settle(ctx, row, s.Ended, errors.New("retryriver: the job had ended, and River could not store with which error"))
	}
	job := retryjob.Stored{Policy: a.Policy, PolicyFor: a.PolicyFor, Kind: row.Kind, State: s.State, Lost: lost}
	outcome := job.Attempt(ctx, func(attempt context.Context) error {
		err := work(attempt)
		switch cancel := rivertype.ErrJobCancelledRemotely; {
		case errors.Is(err, &rivertype.JobSnoozeError{}):
			job.Abort()
		case errors.Is(err, cancel), errors.Is(context.Cause(ctx), cancel): // which is any JobCancelError
			return retry.MarkFinal(err)
		}
		return err
	})
	engine.Tell(ctx, &job) // River stores it after Work
	s.State = job.State
	switch err := job.Decision.Err; outcome {
	case retryjob.Done:
		return s.settle(ctx, row, rivertype.JobStateCompleted, nil)
	case retryjob.Again, retryjob.Refused:
		if job.Cause == retryjob.NoPolicy {
			return job.Err
		}
		a.delays.Store(row.ID, engine.Ceil(job.Decision.Delay, time.Microsecond)) // the column's unit
		return s.settle(ctx, row, "", job.Err)
	case retryjob.Handed:
		if errors.Is(job.Err, &rivertype.JobSnoozeError{}) {
			return job.Err // nothing has changed
		}
		if job.Cause == retryjob.Held {
			return river.JobSnooze(job.Decision.Delay)
		}
		if job.Lost == 0 { // they are in the State
			s.store(ctx, row.Attempt-1)
		}
		return fmt.Errorf("%w: %w", context.Cause(ctx), job.Err) // the cause tells River not to count
	default:
		_, panicked := err.(*retry.PanicError) //nolint:errorlint // of the work itself
		if job.Decision.Stop == retry.StopFinal && !panicked {
			return s.settle(ctx, row, rivertype.JobStateCancelled, err)
		}
		if told := s.settle(ctx, row, rivertype.JobStateDiscarded, err); !panicked {
			return told
		}
		panic(err) // goes on
	}
}

// settle stores s, and returns what makes River end the job in that way, or else retry it.
func (s *stored) settle(ctx context.Context, row *rivertype.JobRow, how rivertype.JobState, err error) error {
	if s.Ended = how; row.Attempt > 1 || err != nil {
		s.store(ctx, row.Attempt)
	}
	if err != nil && ctx.Err() != nil { // River would not count a canceled context
		err = errors.New(err.Error())
	}
	switch {
	case how == rivertype.JobStateCompleted:
		return nil
	case how == rivertype.JobStateDiscarded:
		row.MaxAttempts = row.Attempt // of this copy: as there is an error, River discards the job
	case how == rivertype.JobStateCancelled && !errors.Is(err, &rivertype.JobCancelError{}):
		return river.JobCancel(err)
	}
	return err
}

// store stores s with the end of an attempt.
func (s *stored) store(ctx context.Context, attempt int) {
	s.Attempt = attempt
	_ = river.MetadataSet(ctx, key+strconv.Itoa(attempt%keys), *s) // fails only outside of a worker
}

// NextRetry returns when a failed job is due. River asks it without a decision if the failure
// has not reached Work. Without a policy, or after a panic, the zero Policy decides.
func (a *adapter) NextRetry(job *rivertype.JobRow) (at time.Time) {
	if delay, decided := a.delays.LoadAndDelete(job.ID); decided {
		return time.Now().Add(delay.(time.Duration)) //nolint:forcetypeassert // see Store
	}
	s, _, _ := read(job) // zero if it cannot be read
	failed := retry.State{Failures: s.State.Failures + max(job.Attempt-s.Attempt, 1)}
	defer func() {
		if recover() != nil {
			at = time.Now().Add(new(retry.Policy).Delay(failed))
		}
	}()
	p, _ := retryjob.PolicyFor(job.Kind, a.Policy, a.PolicyFor)
	return time.Now().Add(p.Delay(failed))
}

// read returns what is stored, with the rescues until now, and how many attempts were lost
// since then: River has rescued the job from a worker that died, or has put it back without
// the outcome of an attempt. An attempt with a River error and no State has not reached Work.
func read(job *rivertype.JobRow) (s stored, lost int, err error) {
	metadata := map[string]json.RawMessage{}
	if len(job.Metadata) > 0 {
		err = json.Unmarshal(job.Metadata, &metadata)
	}
	for n := range keys {
		if text, ok := metadata[key+strconv.Itoa(n)]; ok && err == nil {
			var one stored
			err = json.Unmarshal(text, &one)
			// What another job had, or whoever has inserted this one has made up, is not of an attempt at it.
			if possible := one.Attempt%keys == n && one.Attempt <= job.Attempt; possible && one.Attempt >= s.Attempt {
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
	if s.Rescues < 0 || s.Rescues > rescues {
		s.Rescues = 0
	}
	lost = min(max(rescues-s.Rescues, 0), job.Attempt)
	s.Rescues += lost
	told, later := map[int]bool{}, 0
	for _, e := range job.Errors {
		if told[e.Attempt] = true; e.Attempt > s.Attempt {
			later++
		}
	}
	// A job that has ended begins anew if somebody has River retry it. Otherwise River has
	// stored that there is an end, and not the end itself: the job was put back before, or
	// was rescued, which River has an error of.
	if s.Ended != "" && lost <= later && (told[s.Attempt] || s.Ended == rivertype.JobStateCompleted) {
		s.State, s.Ended = retry.State{}, ""
	}
	// If the answer of the database is lost, River stores an outcome again, and does not ask
	// whether the job is at another attempt by then: the job runs again, and the outcome of
	// that attempt is not stored. A job without errors had succeeded and is run by hand.
	for n := s.Attempt + 1; n < job.Attempt && len(told) > 0; n++ {
		if !told[n] {
			lost++
		}
	}
	return s, lost, nil
}
