package tabletest_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// prompts is a table with the columns id, prompt and answer.
func prompts() *retrytable.Table[int64] {
	return &retrytable.Table[int64]{
		Name: "prompts", Lease: 5 * time.Minute, Set: retrytable.Set{Succeed: "answer = $1"},
		Dialect: retrytable.SQLite, // here; PostgreSQL is the default
	}
}

// answering is a worker that has the prompts answered, behind the quota of a language model.
func answering(db *sql.DB, client *http.Client, url string) *retrytable.Worker[int64] {
	return &retrytable.Worker[int64]{
		Table: prompts(), DB: db, Concurrency: 25,
		Policy: &retry.Policy{
			Name: "prompt", MaxAttempts: 5, AttemptTimeout: 10 * time.Minute,
			MaxRetryAfter: 24 * time.Hour, // a stored prompt can wait
			Quota:         &retryquota.Quota{},
		},
		Work: func(ctx context.Context, job *retrytable.Job[int64]) error {
			var prompt string
			err := db.QueryRowContext(ctx, "SELECT prompt FROM prompts WHERE id = $1", job.ID).Scan(&prompt)
			if err != nil {
				return retryjob.MarkNotStarted(err)
			}
			job.Data, err = complete(ctx, client, url, prompt)
			return err
		},
		FinishArgs: func(o *retrytable.Outcome[int64]) []any {
			if o.Err != nil {
				return nil
			}
			return []any{o.Job.Data} // of Set.Succeed
		},
	}
}

// complete sends a prompt, and returns the answer.
func complete(ctx context.Context, client *http.Client, url, prompt string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(prompt))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if v := retryhttp.ClassifyBody(resp, body, time.Now()); v != (retry.Verdict{}) {
		return "", retry.Mark(errors.New(resp.Status), v) // RateLimited, with the hint of the headers
	}
	return string(body), nil
}
