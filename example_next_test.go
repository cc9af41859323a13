package retry_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// job is a row of a table of yours.
type job struct {
	id    string
	state retry.State // a column of JSON, or one for each of its fields
	runAt time.Time   // when it is due
	done  bool
	err   error
}

// The state of a job lives in a database; a worker claims a job that is due, runs
// it, and stores what Next decides.
func ExamplePolicy_Next() {
	policy := &retry.Policy{
		Name:        "export",
		MaxAttempts: 3,
		Backoff:     retry.Exponential{Initial: time.Minute},
		MaxDelay:    time.Hour,
		Jitter:      retry.NoJitter,
	}
	work := func(j *job, now time.Time, err error) {
		d := policy.Next(j.state, err, now)
		j.state = d.State
		if d.Retry {
			j.runAt = d.At
		} else {
			j.done, j.err = true, d.Err
		}
	}

	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	j := &job{id: "job-7", runAt: now, state: retry.State{First: now}}
	for !j.done {
		work(j, j.runAt, errors.New("disk is slow"))
		text, _ := j.state.MarshalText()
		fmt.Println(j.runAt.Format(time.TimeOnly), string(text))
	}
	fmt.Println(j.err)
	// Output:
	// 12:01:00 f=1 t=2026-11-21T12:00:00Z
	// 12:03:00 f=2 t=2026-11-21T12:00:00Z
	// 12:03:00 f=3 t=2026-11-21T12:00:00Z
	// export failed after 3 attempts: disk is slow
}

// With a key, the wait is the same wherever and whenever it is computed: a daemon
// that keeps no state tells from two columns whether a row is due.
func ExamplePolicy_Delay() {
	policy := &retry.Policy{
		MaxAttempts: 8,
		Backoff:     retry.Exponential{Initial: 5 * time.Minute},
		MaxDelay:    6 * time.Hour,
		Jitter:      retry.PlusMinus(30 * time.Second),
	}
	attemptCount, updatedAt := 2, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	due := updatedAt.Add(policy.Delay(retry.State{Failures: attemptCount, Key: "partition-17"}))
	again := updatedAt.Add(policy.Delay(retry.State{Failures: attemptCount, Key: "partition-17"}))
	fmt.Println(due.Round(time.Minute).Format(time.TimeOnly), due.Equal(again))
	// Output: 12:10:00 true
}

// The attempt is counted when the job is claimed, so that a job that kills its
// worker ends all the same. Before it runs, ask whether it may.
func ExamplePolicy_Exhausted() {
	policy := &retry.Policy{Name: "export"}
	claimed := 4 // the column of attempts, with the one that was just claimed

	d, exhausted := policy.Exhausted(retry.State{Failures: claimed - 1}, time.Now())
	fmt.Println(exhausted, d.Err)
	// Output: true export failed after 3 attempts
}

// Engines that cut times to whole seconds must not run a job early.
func ExampleDecision_DelayCeil() {
	d := retry.Decision{Delay: 1500 * time.Millisecond}
	fmt.Println(d.DelayCeil(time.Second).Truncate(time.Second))
	// Output: 2s
}
