package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/systems/shared"
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
	var words strings.Builder
	for word := range strings.SplitSeq(string(s), "_") {
		words.WriteString(strings.ToUpper(word[:min(len(word), 1)]) + word[min(len(word), 1):])
	}
	return words.String()
}

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
