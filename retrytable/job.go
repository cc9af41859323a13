package retrytable

import (
	"context"
	"database/sql"

	"github.com/seed-5ff3c98e/retry"
)

// Job is what a [Worker] works on: a claimed row. Its methods are for Work, and are not
// safe for concurrent use.
type Job[ID any] struct {
	Row[ID]

	// Data is for what Work wants FinishArgs, InTx and After to know. It is not stored.
	Data any

	policy  *retry.Policy // for its kind
	leave   func()        // gives back its place
	status  string
	effects []func(context.Context, *sql.Tx) error
}

// Attempt returns the number of this attempt; the first has number 1. Attempts that do
// not count towards MaxAttempts are included.
func (j *Job[ID]) Attempt() int { return j.State.Attempts() + 1 }

// SucceedAs sets the status with which the job ends if Work returns nil: one of
// Statuses.Done. Any other word is reported to OnError, and the job is not finished.
func (j *Job[ID]) SucceedAs(word string) { j.status = word }

// InTx adds fn to the transaction that ends the job if Work returns nil, after the
// functions that were added before: either all of them take effect and the job is done,
// or nothing takes effect. fn runs again if the transaction is repeated, so it must do
// nothing outside of the transaction.
//
// An error of fn is a failure of the attempt, about which the policy decides. A
// constraint that refuses the commit is such a failure too. But if the error is Retryable
// or RateLimited, the transaction is repeated for as long as the lease holds.
// [retry.Classify] and package retrysql decide that: a lost connection, a deadlock and a
// serialization failure are such errors. Return the errors of statements: in MySQL,
// statements after a deadlock are in no transaction any more.
//
// The whole transaction has half of the rest of the lease: with the default
// Heartbeat, a third of Table.Lease. fn should pass its ctx to every statement.
func (j *Job[ID]) InTx(fn func(ctx context.Context, tx *sql.Tx) error) {
	j.effects = append(j.effects, fn)
}

// Outcome is how an attempt ended.
type Outcome[ID any] struct {
	Job *Job[ID]

	// Err is nil if the job is done. Otherwise it is the error of Work, or
	// [retry.ErrLost], or the Decision's Err if the job was not run again because no
	// attempt was left.
	Err error

	// Decision is what the policy has decided about Err.
	Decision retry.Decision

	// Released says that the job was given back: because the Worker has to stop, because
	// there is no policy for its kind, see Worker.PolicyFor, or because its attempt could not
	// start and the table has no Columns.Pending, see [retry.MarkNotStarted]. Err is then the
	// reason, and of the Decision only the Delay is set.
	Released bool

	stored retry.Stored // what the Observer is told when it is stored
}
