package main

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// action is what happens when a task starts or ends.
type action struct {
	Kind   string `json:"kind"` // Webhook
	Params struct {
		URL  string `json:"url"`
		Verb string `json:"verb"` // Get, Post, Put, Patch, Delete
	} `json:"params"`
}

func (a *action) validate() error {
	if a == nil {
		return nil
	}
	u, err := url.Parse(a.Params.URL)
	return cmp.Or(
		shared.Must(a.Kind == "Webhook", "kind", fmt.Sprintf("%.60q", a.Kind), "be Webhook"),
		shared.Must(err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"), "params.url",
			fmt.Sprintf("%.100q", a.Params.URL), "be http://… or https://…"),
		shared.Must(slices.Contains([]string{"Get", "Post", "Put", "Patch", "Delete"}, a.Params.Verb), "params.verb",
			fmt.Sprintf("%.60q", a.Params.Verb), "be Get, Post, Put, Patch or Delete"),
	)
}

// key is the idempotency key of a call. Another attempt is another call; but see [service.startKey].
func key(taskID, trigger string, condition status, attempt int) string {
	return fmt.Sprintf("%s:%s:%s:%d", taskID, trigger, string(condition), attempt)
}

// callsAtOnce is how many tasks may be starting, and how many webhooks of ends may be
// called. It is far more than receivers are likely to hang: each one that does keeps a
// goroutine for its timeout, and nothing else.
const callsAtOnce = 256

// once is the policy of a call: what is tried again is the task.
var once = &retry.Policy{Name: "webhook", MaxAttempts: 1}

// call calls a webhook, once. The receiver learns what task it is and which
// attempt, and what it has to know to report about it.
func (s *service) call(ctx context.Context, a *action, key string, about any) error {
	body, err := json.Marshal(about)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(a.Params.Verb), a.Params.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	return retryhttp.Do(s.client, once, req, func(*http.Response) error { return nil })
}

// startKey is the key of the on_start of an attempt. If nobody knows what became of the call of the
// attempt before, because its caller has died, it is called again under the same key.
func (s *service) startKey(ctx context.Context, db retrytable.DB, id string, attempt int) (string, error) {
	known, err := s.update(ctx, db, `SELECT idempotency_key FROM webhook_execution WHERE task_id = $1
		AND idempotency_key LIKE '%:start:%' AND (attempt = $2 OR attempt = $2 - 1 AND status = 'failure' AND error LIKE 'lost: %')
		ORDER BY attempt DESC`, id, attempt)
	return append(known, key(id, "start", success, attempt))[0], err
}

// record records what became of the on_start of an attempt, with what that means.
func (s *service) record(ctx context.Context, tx *sql.Tx, t task, attempt int, refused error) error {
	if t.OnStart == nil {
		return nil
	}
	result, text := success, any(nil)
	if refused != nil {
		result, text = failed, refused.Error()
	}
	called, err := s.startKey(ctx, tx, t.ID, attempt)
	if err != nil {
		return err
	}
	_, err = s.update(ctx, tx, `INSERT INTO webhook_execution (idempotency_key, task_id, attempt, action, status, error)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (idempotency_key)
		DO UPDATE SET status = excluded.status, error = excluded.error, attempt = excluded.attempt RETURNING idempotency_key`,
		called, t.ID, attempt, shared.JSON{In: t.OnStart}, string(result), text)
	return err
}

// enqueue has the webhook for the end of a task called, by [service.deliverer] and
// once the transaction is committed.
func (s *service) enqueue(ctx context.Context, tx *sql.Tx, t task) error {
	hook := map[status]string{success: "on_success", failed: "on_failure"}[t.Status]
	if hook == "" {
		return nil
	}
	_, err := s.update(ctx, tx, `INSERT INTO webhook_execution (idempotency_key, task_id, attempt, action, status)
		SELECT $2, id, attempt, `+hook+`, 'ready' FROM task
		WHERE id = $1 AND `+hook+` IS NOT NULL ON CONFLICT DO NOTHING RETURNING idempotency_key`,
		t.ID, key(t.ID, "end", t.Status, t.Attempt))
	return err
}

// deliverer calls the webhooks that were enqueued, several at a time, so that one that
// hangs delays no other. They are calls about facts, and so have a policy of their own
// and wait for no task.
func (s *service) deliverer() *retrytable.Worker[string] {
	return &retrytable.Worker[string]{
		Table: s.hooks, DB: s.db.DB, Work: s.deliver, Concurrency: callsAtOnce, Poll: s.poll,
		Policy:  &retry.Policy{Name: "webhook", Backoff: retry.Exponential{Initial: 5 * time.Second}},
		Grace:   2 * s.hookTime, // what was begun is finished
		OnError: func(_ context.Context, err error) { s.log.Error("webhook loop", "error", err) },
	}
}

// deliver calls one of them.
func (s *service) deliver(ctx context.Context, job *retrytable.Job[string]) error {
	var a action
	var id string
	err := s.db.QueryRowContext(ctx, "SELECT task_id, action FROM webhook_execution WHERE idempotency_key = $1", job.ID).
		Scan(&id, shared.JSON{In: &a})
	if err != nil {
		return retryjob.MarkNotStarted(err)
	}
	t, err := s.task(ctx, s.db, id)
	if err != nil {
		return retryjob.MarkNotStarted(err)
	}
	if err = s.call(ctx, &a, job.ID, t); err != nil {
		s.log.Warn(t.Name, "webhook", job.ID, "error", err)
	}
	return err
}
