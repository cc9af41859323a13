// Package recipes has functions to copy, which docs/recipes.md explains.
package recipes

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/smtp"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// Tokens has a token until it is refused.
type Tokens interface {
	Get(ctx context.Context) (string, error)
	Refused(header string) // forgets the token of this Authorization, and not a newer one
}

// Authorized returns a client that gets a new token after a 401, and sends the request once more.
func Authorized(tokens Tokens) *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{
		Prepare: func(r *http.Request) error {
			token, err := tokens.Get(r.Context())
			r.Header.Set("Authorization", "Bearer "+token)
			return err
		},
		ClassifyResponse: func(resp *http.Response) (v retry.Verdict) {
			if resp.StatusCode == http.StatusUnauthorized {
				tokens.Refused(resp.Request.Header.Get("Authorization"))
				v.Class = retry.Retryable
			}
			return v
		},
	}}
}

// Upload sends size bytes of file in parts, each with attempts of its own. It goes on at offset, and returns
// where to go on after an error; the server may have stored that part, and gets it again. Of an empty file it
// sends nothing. The client is a plain one, or its Transport has NoBudget: all parts would share the budget of
// the host, and a server that fails one in four uses it up.
func Upload(ctx context.Context, client *http.Client, url string, file io.ReaderAt, offset, size, part int64) (int64, error) {
	for offset < size {
		n := min(part, size-offset)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, io.NewSectionReader(file, offset, n))
		if err != nil {
			return offset, err
		}
		req.ContentLength = n
		req.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, offset+n-1, size))
		if err := retryhttp.Do(client, nil, req, func(*http.Response) error { return nil }); err != nil {
			return offset, err
		}
		offset += n
	}
	return offset, nil
}

// Hook is a call that a customer is waiting for.
type Hook struct {
	ID, Customer, URL string
	Body              []byte
}

// Deliver calls a webhook. A rate limit of one customer holds the hooks of that customer alone. What cannot be
// delivered is given to dead; if ctx ends, the error is returned, and the hook may come again. The client is
// a plain one, or its Transport has NoBudget: one customer's failures would use up what others need. A hook that
// is held holds its goroutine: give each one, or let a Worker with QuotaFor call it. The eight attempts are over
// within half a minute: for an outage of hours, set Backoff and MaxDelay, or store the hook.
func Deliver(ctx context.Context, client *http.Client, quotas *retryquota.Keys[string], hook Hook, dead func(Hook, error) error) error {
	policy := &retry.Policy{MaxAttempts: 8, AttemptTimeout: 30 * time.Second, MaxRetryAfter: time.Hour, Quota: quotas.Of(hook.Customer)}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(hook.Body))
	if err != nil {
		return dead(hook, err)
	}
	req.Header.Set("Idempotency-Key", hook.ID) // also after a restart
	err = retryhttp.Do(client, policy, req, func(*http.Response) error { return nil })
	if err == nil || errors.Is(err, retry.StopCanceled) || errors.Is(err, retry.StopDeadline) {
		return err
	}
	return dead(hook, err)
}

// Step is a part of a saga. Undo must not be nil; it may be called if Do has failed, and twice. After a panic
// nothing is undone.
type Step struct{ Do, Undo func(context.Context) error }

// Saga does the steps. If one fails, it undoes that one and those before it, the last first. A Do may run again
// after a failure that had an effect, unless the policy is NonIdempotent. An Undo that fails for good is in the
// error, and the others still run. A process that is killed undoes nothing: store a saga that has to end.
func Saga(ctx context.Context, policy *retry.Policy, steps ...Step) error {
	undo := &retry.Policy{MaxAttempts: retry.Unlimited, Timeout: time.Hour}
	for i, step := range steps {
		err := policy.Execute(ctx, step.Do)
		if err == nil {
			continue
		}
		kept := context.WithoutCancel(ctx) // the undoing goes on
		for _, begun := range slices.Backward(steps[:i+1]) {
			err = errors.Join(err, undo.Execute(kept, begun.Undo))
		}
		return err
	}
	return nil
}

// Mail sends a message. A reply from 400 to 499, such as greylisting, is tried again; one from 500 on is Final.
// Greylisting wants waits of minutes: MaxAttempts: 8, Backoff: retry.Constant(5 * time.Minute), Jitter:
// retry.Proportional(0.1); full jitter may wait seconds. SendMail knows no context, and may outlast a Timeout.
func Mail(ctx context.Context, policy *retry.Policy, addr string, auth smtp.Auth, from string, to []string, message []byte) error {
	return policy.Execute(ctx, func(context.Context) error {
		return smtp.SendMail(addr, auth, from, to, message)
	})
}

// Rename changes one row. If the server has restarted, the idle connections are dead too: they cost one attempt
// at most. The statement may run again after it has been committed, which changes nothing.
func Rename(ctx context.Context, db *sql.DB, id int64, name string) error {
	return retrysql.InTx(ctx, db, nil, &retrysql.TxOptions{Idempotent: true}, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE users SET name = $2 WHERE id = $1", id, name)
		return err
	})
}

// Ready waits until a database answers, and until its host is in the DNS. It ends at once if a password or the
// name of the database is wrong.
func Ready(ctx context.Context, db *sql.DB) error {
	policy := &retry.Policy{
		MaxAttempts: retry.Unlimited, Timeout: 2 * time.Minute, AttemptTimeout: 5 * time.Second, Backoff: retry.Constant(time.Second),
		Classifier: func(err error) retry.Verdict {
			v := retrysql.Classify(err)
			if v.Category == "dns_not_found" {
				v.Class = retry.Retryable
			}
			return v
		},
	}
	return policy.Execute(ctx, db.PingContext)
}
