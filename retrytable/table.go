package retrytable

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// ErrLeaseLost is the error of a finish that came too late: the row is claimed
// by somebody else, or finished, or was given another status by hand. Nothing
// was changed. If the work cannot be repeated, do it in the transaction of the finish,
// and roll back.
var ErrLeaseLost = errors.New("retrytable: lease lost")

// DB is what the methods of a [Table] need: a [*sql.DB], a [*sql.Conn] or a
// [*sql.Tx].
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Dialect is the SQL of a database.
type Dialect uint8

// The dialects.
const (
	PostgreSQL Dialect = iota // 12 or later
	SQLite                    // 3.35 or later; its clock has milliseconds, so a retry may be early by less than 1 ms
	MySQL                     // 8.0.23 or later, or MariaDB 10.6 or later; with InnoDB
)

// Table is a table of jobs with the state of their retries. Its ID column, which
// must be unique, has the type ID: int64, string, []byte, or a type that is a
// [sql.Scanner] and a driver.Valuer, like most UUIDs.
//
// A literal with a Name is ready to use. [Table.Schema] returns the SQL of its columns
// and indexes. If [Table.Validate] finds a fault, the other methods return its error. A
// Table is safe for concurrent use, and must be neither changed nor copied after its
// first use.
//
// Names of columns, and words of the status column, are quoted. Where, ClaimWhere,
// OrderBy and Set are SQL, and go into the statements as they are: they must never
// be made from input. For values there are parameters: a method's args are the $1,
// $2, … of the SQL that goes into its statement, in all dialects, and there must
// be as many. Where PostgreSQL cannot tell the type of a parameter, as in
// "$1 IS NULL" (error 42P08 or 42P18), give it one: CAST($1 AS text).
type Table[ID any] struct {
	Dialect  Dialect
	Name     string   // "jobs", or with its schema "app.jobs"
	Columns  Columns  // what the columns are called
	Statuses Statuses // the words of the status column
	Instants Instants // what type Due, Lease and First have

	// Lease is how long a claim holds if it is not extended. It must be longer
	// than the work takes or the pauses between two calls of Extend, because
	// work whose lease runs out is done again. 0 means 1 minute.
	Lease time.Duration

	// Where restricts Claim, Promote and Sweep to some of the rows, and so a
	// worker to the jobs that it can do: "kind = ANY($1)". A condition that few
	// rows meet needs an index of its own.
	Where string

	// ClaimWhere restricts Claim alone, in addition to Where. It is for conditions that
	// change while rows wait, such as a limit of how many run at a time: "(SELECT count(*)
	// FROM jobs AS other WHERE other.kind = jobs.kind AND other.status IN ('running')) < 4".
	// It is in no index: a claim looks at each row that the condition holds back, and the
	// rows that it counts should have an index. Claims made at the same moment do not see
	// each other: if a limit must be exact, let them take turns, by a lock in their
	// transactions. In SQLite they always take turns.
	ClaimWhere string

	// OrderBy is the order in which jobs are claimed: "turn". Empty means the order in
	// which they are due, new ones and retries alike. New rows should then be due when
	// they were made: without a due time they come first.
	//
	// When there is more work than the workers can do, an order by columns that do not
	// change lets jobs starve. With "priority DESC, created_at", the retries of old jobs
	// keep new jobs out for as long as they fail, and a job of low priority waits for as
	// long as there is a job of higher priority. Without an OrderBy no job starves. With a
	// column that is set anew for each retry, no job starves either:
	//
	//	OrderBy: "turn",
	//	Set:     retrytable.Set{Promote: "turn = due_at - priority * interval '1 minute'"},
	//
	// In a new row, turn is now() - priority * interval '1 minute'. For each step of its
	// priority, a job is then claimed before jobs that came up to a minute earlier, and
	// every other job has its turn too.
	//
	// With an OrderBy, the rows that wait in its order are Ready and have no due time.
	// Retries have a due time, and join these rows when they are due: Claim promotes some
	// before it claims. That is a statement of its own, because no index has the rows that
	// are due now in another order. To sort them, or to skip the rows that are not due,
	// takes longer the more rows there are.
	OrderBy string

	// NoPromote makes Claim leave the retries of a table with an OrderBy to [Table.Promote],
	// for programs that do something with them: they call Promote in a loop of their own.
	// Otherwise the retries are never claimed.
	NoPromote bool

	// Merge makes Claim take new rows and due retries together in the order of OrderBy,
	// without promoting the retries first: a row keeps its status and its due time until it
	// is claimed. It is for tables whose other programs look at both. A Ready row is then due
	// at once, whatever its due time. A Waiting row is due at its due time.
	//
	// A claim looks at the 1000 retries that have been due for longest, or at as many as it
	// claims if that is more. So the order is exact while no more retries are due. To look at
	// them takes a few milliseconds, and no longer in a larger table. MySQL has no Merge.
	Merge bool

	Set Set // what else is written

	// Notify is a channel of PostgreSQL. [Table.Schema], Missing and Migrate then add a trigger that
	// notifies it when rows are inserted that are due, once for a statement, so that retrypgx.Listen
	// wakes a [Worker] as soon as they are committed. Rows that an UPDATE makes due wait for
	// Worker.Poll. The trigger costs an insert a few microseconds. A commit that notifies waits for
	// other such commits, so while many are inserted, retrypgx.Listen has the trigger be still for up to
	// 160 ms, and has jobs looked for every millisecond. A row whose transaction stays open for more
	// than 5 ms after its insert may then wait for Poll too.
	Notify string

	// KeepAutovacuum has [Table.Schema] set nothing for autovacuum in PostgreSQL. A
	// partitioned table needs it: only its partitions have such settings.
	KeepAutovacuum bool

	once       sync.Once
	statements *sqltable.Statements
	invalid    error // of Validate
}

// Columns are the names of columns. An empty name means the default; for an optional
// column it means that the table has no such column. NULL is allowed, as in rows that are
// older than the column: it stands for 0 or no instant.
type Columns struct {
	ID     string // "id"
	Status string // "status": text, or an enum with the words of Statuses

	// Attempts counts the failures so far, and also the attempt in progress, in case it
	// never ends: "attempts". [Table.Fail] subtracts the attempt in progress if it was a
	// rate limit that costs no attempt, or found nothing yet. [Table.Release] subtracts it
	// too. [Table.Succeed] does not.
	Attempts string

	// Retries takes the place of Attempts, for tables in which other programs count retries.
	// It counts the retries so far, 0 during the first attempt: Fail raises it if the failure
	// is retried and counts. Nothing else changes it, neither a claim nor the failure that
	// ends the job. A worker that dies is counted when its row is swept. In such a table, a
	// [Worker] makes an attempt with every row that is due, so a row that was made ready by
	// hand runs once more, however many retries it has had.
	Retries string

	// Due is when a job is to be run: "due_at". In a Waiting row, NULL means never; in a
	// Ready row, it means at once. It is NULL in claimed rows.
	Due string

	// Lease is when the claim of a row ends: "lease_until". It is NULL in rows
	// that are not claimed; a Running row with NULL was not claimed by a Table,
	// and Sweep leaves it alone.
	Lease string

	Fence string // the number of the last claim: "fence"

	// RateLimited is optional. It counts the failures that cost no attempt, and
	// is needed to limit them by [retry.Policy.FreeRateLimits]; without it, the count begins
	// at 0 with every claim of the row.
	RateLimited string

	// Pending is optional. It counts the attempts that found nothing yet, see
	// [retry.MarkPending], and is needed for them: without it, [Table.Fail] refuses to store
	// such an attempt, because its backoff would never grow and its limit would never be
	// reached. A Worker then tells OnError, and the row is due after Table.Lease.
	Pending string

	// First is optional. It is the time when the first attempt began, or when the last
	// attempt that made progress ended, and is needed for [retry.Policy.MaxElapsed] and
	// Timeout.
	First string

	// Ended is optional. It is the time when the last attempt ended, or when [Table.End] ended
	// the job, for the Since and Until of [Jobs].
	Ended string

	// Kind is optional. It is the kind of a job, for [Worker.PolicyFor]: text, an enum, or
	// JSON if a job brings its policy itself. A Worker only reads it. Like the others, it is added
	// by [Table.Schema], and so not in the CREATE TABLE before it.
	Kind string

	// Key is optional. It tells whose limit a job is under, such as a tenant's, for
	// [Worker.QuotaFor]: of any type that the database can make a text of. It may be the same
	// column as Kind. A Worker only reads it, and Schema adds it.
	Key string

	// Category is optional. It is the category of the last failure, [retry.Verdict].Category:
	// text. A success makes it NULL.
	Category string

	// Error is optional. It is the text of the last failure, so that a dead job says why. It
	// is written with every failure, of lost attempts too, and if no attempt was left; a
	// success makes it NULL. If something other than a Final error or the number of attempts
	// ended the job, the text begins with that reason. Secrets in URLs and control characters
	// other than new lines and tabs are removed, and the middle of a long text is left out,
	// so that it has at most 2048 bytes. If the database refuses a row with the text, a
	// [Worker] stores a short text in ASCII, or NULL.
	Error string
}

// Statuses are the words that the status column has for the states of a job. An
// empty word or list means the default. Waiting may be the same as Ready, or as
// Dead; the due time then tells the states apart. Dead may be one
// of Done.
type Statuses struct {
	Ready   string   // to be run: "ready"
	Waiting string   // for its retry: "waiting"
	Running []string // claimed: "running". Claim writes the first; the other methods accept any of them.
	Done    []string // succeeded: "done". Succeed writes the first, SucceedAs any of them.
	Dead    string   // given up: "dead"
}

// Set has assignments that a statement makes in addition to its own: "error = $1,
// updated_at = now()". They are for other columns of the table, and for those of
// [Columns] that the statement does not set. The columns that it sets are named at
// each field; they cannot be set twice.
//
// Retry is made in addition to Fail if the failure is retried, and End if it ends the
// job. They use the parameters of Fail and no others, so that the args of [Table.Fail] do
// not depend on the decision. Promote uses the parameters of Where and no others, because
// Claim has no others for it; with NoPromote it may have its own.
type Set struct {
	Claim   string // Status, Attempts, Due, Lease, Fence, First
	Succeed string // Status, Lease, Ended, Category, Error: with "attempts = 0", a success resets the count
	Fail    string // Status, Attempts, Due, Lease, RateLimited, Pending, First, Ended, Category, Error
	Retry   string // as Fail
	End     string // as Fail
	Release string // Status, Attempts, Due, Lease, First
	Promote string // Status, Due
}

// sql returns the statements of the table, built by the first call, or the error of Validate.
func (t *Table[ID]) sql() (*sqltable.Statements, error) {
	t.once.Do(func() {
		lower := t.lower()
		if t.invalid = lower.Validate(); t.invalid == nil {
			t.statements = lower.Statements()
		}
	})
	return t.statements, t.invalid
}

// Validate reports everything that is wrong with t, each with the field and its
// value.
func (t *Table[ID]) Validate() error { return t.lower().Validate() }

// lower returns what package sqltable has to know of t, with the defaults.
func (t *Table[ID]) lower() *sqltable.Table {
	return (&sqltable.Table{
		Dialect: sqltable.Dialect(t.Dialect), Instants: sqltable.Instants(t.Instants), Name: t.Name, Lease: t.Lease,
		Columns: sqltable.Columns(t.Columns), Statuses: sqltable.Statuses(t.Statuses), Set: sqltable.Set(t.Set),
		Where: t.Where, ClaimWhere: t.ClaimWhere, OrderBy: t.OrderBy, Notify: t.Notify,
		NoPromote: t.NoPromote, Merge: t.Merge, KeepAutovacuum: t.KeepAutovacuum,
		ScanID: func(rows *sql.Rows, more ...any) (any, error) {
			var id ID
			err := rows.Scan(append([]any{&id}, more...)...)
			return id, err
		},
	}).WithDefaults()
}
