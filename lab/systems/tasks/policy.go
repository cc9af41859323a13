package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
)

// status is that of a task, as the database has it. The API says RetryPending.
type status string

const (
	waiting      status = "waiting" // for other tasks
	pending      status = "pending"
	claimed      status = "claimed" // its on_start is being called
	running      status = "running"
	retryPending status = "retry_pending"
	paused       status = "paused"
	success      status = "success"
	failed       status = "failure"
	canceled     status = "canceled"
)

var statuses = []status{waiting, pending, claimed, running, retryPending, paused, success, failed, canceled}

// The statuses that are not an end, for SQL.
const alive = "('waiting', 'pending', 'claimed', 'running', 'retry_pending', 'paused')"

func (s status) String() string {
	return initial.ReplaceAllStringFunc(string(s), func(letter string) string { return strings.ToUpper(strings.TrimPrefix(letter, "_")) })
}

// initial is what begins a word of a status in the database.
var initial = regexp.MustCompile(`(?:^|_)[a-z]`)

// MarshalText returns the word of the API.
func (s status) MarshalText() ([]byte, error) { return []byte(s.String()), nil } //nolint:unparam // the interface

// UnmarshalText takes the words of the API and of the database.
func (s *status) UnmarshalText(word []byte) error {
	i := slices.IndexFunc(statuses, func(s status) bool { return string(word) == s.String() || string(word) == string(s) })
	if i < 0 {
		return fmt.Errorf("status: %.60q: must be one of %v", word, statuses)
	}
	*s = statuses[i]
	return nil
}

// newTask is a task of POST /task.
type newTask struct {
	ID           string          `json:"id"` // within the request
	Name         string          `json:"name"`
	Kind         string          `json:"kind"`
	Timeout      int32           `json:"timeout"`                   // in seconds without a word of the task; 60 if it is 0
	Dependencies []string        `json:"dependencies,omitempty"`    // IDs of tasks that must succeed before
	MaxRunning   int32           `json:"max_concurrency,omitempty"` // start only if fewer of its kind run; 0 means any number
	Retry        json.RawMessage `json:"retry,omitempty"`           // a retryPolicy
	OnStart      *action         `json:"on_start,omitempty"`
	OnSuccess    *action         `json:"on_success,omitempty"`
	OnFailure    *action         `json:"on_failure,omitempty"`

	policy *retryPolicy
}

// basicTask is a task in a list.
type basicTask struct {
	ID      string `json:"id"`
	BatchID string `json:"batch_id"`
	LocalID string `json:"local_id"`
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Status  status `json:"status"`
	Attempt int    `json:"attempt"` // 0 is the first
}

// task is a task.
type task struct {
	basicTask

	Timeout       int32          `json:"timeout"`
	Retry         *retryPolicy   `json:"retry"`
	NextRetryAt   shared.Instant `json:"next_retry_at,omitzero"`
	FailureReason string         `json:"failure_reason,omitempty"`
	Success       int64          `json:"success"`
	Failures      int64          `json:"failures"`
	CreatedAt     shared.Instant `json:"created_at"`
	StartedAt     shared.Instant `json:"started_at,omitzero"`
	EndedAt       shared.Instant `json:"ended_at,omitzero"`
	LastUpdated   shared.Instant `json:"last_updated"`
	OnStart       *action        `json:"on_start,omitempty"`

	fence  int64
	now    shared.Instant // when this was read
	unread error          // why its policy or its on_start cannot be read, and is not there
}

// taskColumns are what scanTask reads.
const taskColumns = `id, coalesce(CAST(batch_id AS text), ''), local_id, coalesce(name, ''), kind, status, attempt, timeout,
	retry_policy, next_retry_at, coalesce(failure_reason, ''), success, failures, created_at, started_at, ended_at,
	last_updated, on_start, coalesce(fence, 0), {now}`

func scanTask(row *sql.Rows) (t task, err error) {
	return t, row.Scan(&t.ID, &t.BatchID, &t.LocalID, &t.Name, &t.Kind, &t.Status, &t.Attempt, &t.Timeout,
		shared.JSON{In: &t.Retry, Err: &t.unread}, &t.NextRetryAt, &t.FailureReason, &t.Success, &t.Failures, &t.CreatedAt, &t.StartedAt,
		&t.EndedAt, &t.LastUpdated, shared.JSON{In: &t.OnStart, Err: &t.unread}, &t.fence, &t.now)
}

// unmarshalStrict takes no fields that there are not, and nothing after the value.
func unmarshalStrict(data io.Reader, into any) error {
	d := json.NewDecoder(data)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// retryPolicy is the policy that comes with a task.
type retryPolicy struct {
	MaxRetries        int32     `json:"max_retries"` // without the first attempt
	InitialDelaySecs  int32     `json:"initial_delay_secs"`
	BackoffMultiplier float64   `json:"backoff_multiplier"`
	MaxDelaySecs      int32     `json:"max_delay_secs"`
	RetryOn           []trigger `json:"retry_on,omitempty"` // nil means all
}

// trigger is a kind of failure.
type trigger string

const (
	timedOut       trigger = "timeout"         // no word of the task for too long
	webhookFailure trigger = "webhook_failure" // its on_start was refused
	explicit       trigger = "explicit"        // somebody said so, by PATCH
	lost           trigger = "lost"            // our fault, and in no retry_on: whoever called its on_start has died
)

// lostStarts is how many attempts a task without a policy has, if their callers die.
const lostStarts = 3

// failure is how an attempt ended.
type failure struct {
	trigger trigger
	reason  string
	after   time.Duration // a webhook's Retry-After
}

func (f *failure) Error() string { return string(f.trigger) + ": " + f.reason }

// UnmarshalJSON fills in the defaults.
func (r *retryPolicy) UnmarshalJSON(data []byte) error { return r.read(data, math.MaxInt32) }

// read fills in the defaults, of which no delay is longer than this.
func (r *retryPolicy) read(data []byte, longest int32) error {
	type plain retryPolicy
	p := plain{InitialDelaySecs: min(5, longest), BackoffMultiplier: 2, MaxDelaySecs: min(300, longest)}
	err := unmarshalStrict(bytes.NewReader(data), &p)
	*r = retryPolicy(p)
	return err
}

// UnmarshalText takes the triggers that there are.
func (t *trigger) UnmarshalText(word []byte) error {
	*t = trigger(word)
	if !slices.Contains([]trigger{timedOut, webhookFailure, explicit}, *t) {
		return fmt.Errorf("retry_on: %.60q: must be timeout, webhook_failure or explicit", word)
	}
	return nil
}

// policy is r as the library has it, without jitter: callers are promised the delays
// that they ask for. No policy is no retry.
func (r *retryPolicy) policy() *retry.Policy {
	if r == nil {
		p := (&retryPolicy{InitialDelaySecs: 5, BackoffMultiplier: 2, MaxDelaySecs: 300}).policy()
		p.Overrides = map[string]retry.Override{string(lost): {MaxAttempts: lostStarts}}
		return p
	}
	return &retry.Policy{
		Name:        "task",
		MaxAttempts: int(r.MaxRetries) + 1,
		Backoff: retry.Exponential{
			Initial: time.Duration(r.InitialDelaySecs) * time.Second, Multiplier: r.BackoffMultiplier,
		},
		MaxDelay:   time.Duration(r.MaxDelaySecs) * time.Second,
		Jitter:     retry.NoJitter,
		Classifier: r.classify,
	}
}

// classify lets those failures be retried that the policy is for.
func (r *retryPolicy) classify(err error) retry.Verdict {
	var f *failure
	if !errors.As(err, &f) {
		return retry.Verdict{}
	}
	class := retry.Retryable
	if r.RetryOn != nil && f.trigger != lost && !slices.Contains(r.RetryOn, f.trigger) {
		class = retry.Final
	}
	return retry.Verdict{Class: class, Category: string(f.trigger), After: f.after}
}

// newPolicy reads the policy of a request, and reports everything that is wrong with it, in
// the words of whoever has sent it. A default is never beyond the limits.
func newPolicy(data json.RawMessage, limits retryLimits) (r *retryPolicy, err error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil //nolint:nilnil // there is none
	}
	r = &retryPolicy{}
	if err := r.read(data, limits.maxDelaySecs); err != nil {
		return nil, err
	}
	return r, errors.Join(
		shared.Must(1 <= r.MaxRetries && r.MaxRetries <= limits.maxRetries, "max_retries", r.MaxRetries,
			fmt.Sprint("be from 1 to ", limits.maxRetries)),
		shared.Must(r.InitialDelaySecs >= 1, "initial_delay_secs", r.InitialDelaySecs, "be at least 1"),
		shared.Must(r.BackoffMultiplier >= 1, "backoff_multiplier", r.BackoffMultiplier, "be at least 1.0"),
		shared.Must(r.InitialDelaySecs <= r.MaxDelaySecs && r.MaxDelaySecs <= limits.maxDelaySecs, "max_delay_secs", r.MaxDelaySecs,
			fmt.Sprintf("be from the initial_delay_secs of %d to %d", r.InitialDelaySecs, limits.maxDelaySecs)),
		shared.Must(r.RetryOn == nil || len(r.RetryOn) > 0, "retry_on", "[]", "be absent or have a trigger"),
	)
}
