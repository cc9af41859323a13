package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

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
	return retry.Verdict{Class: class, Category: string(f.trigger)}
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
	var errs []error
	check := func(ok bool, field string, value any, problem string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: must be %s", field, value, problem))
		}
	}
	check(r.MaxRetries >= 1, "max_retries", r.MaxRetries, "at least 1")
	check(r.MaxRetries <= limits.maxRetries, "max_retries", r.MaxRetries, fmt.Sprintf("at most %d", limits.maxRetries))
	check(r.InitialDelaySecs >= 1, "initial_delay_secs", r.InitialDelaySecs, "at least 1")
	check(r.BackoffMultiplier >= 1, "backoff_multiplier", r.BackoffMultiplier, "at least 1.0")
	check(r.MaxDelaySecs >= r.InitialDelaySecs, "max_delay_secs", r.MaxDelaySecs,
		fmt.Sprintf("at least the initial_delay_secs of %d", r.InitialDelaySecs))
	check(r.MaxDelaySecs <= limits.maxDelaySecs, "max_delay_secs", r.MaxDelaySecs, fmt.Sprintf("at most %d", limits.maxDelaySecs))
	check(r.RetryOn == nil || len(r.RetryOn) > 0, "retry_on", "[]", "absent or have a trigger")
	return r, errors.Join(errs...)
}
