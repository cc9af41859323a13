package retrytable

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/dberr"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// Status is a state of a job, whatever its word is in the table, or several: Waiting | Dead.
type Status uint8

// The states. If Ready and Waiting have the same word, a job with a due time is Waiting. If
// Waiting and Dead have, a job without one is Dead. A word that Dead shares with Done is Dead.
const (
	Ready Status = 1 << iota
	Waiting
	Running
	Done
	Dead
	Other // a word that Statuses does not have
)

var statusNames = []string{"ready", "waiting", "running", "done", "dead", "other"}

// String returns the names: "waiting|dead".
func (s Status) String() string {
	var names []string
	for i, name := range statusNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// Jobs says which jobs an operation or a look is about: those that meet all of the fields that
// are set. A Table.Where without parameters restricts them too.
//
// An operation is refused if no field but Status and Limit is set: set All to mean every job.
type Jobs[ID any] struct {
	IDs   []ID
	Kinds []string // of Columns.Kind

	// Status is one or more states. 0 means those that are named at each operation, and every
	// one in a look.
	Status Status

	// Category is that of the last failure, and Error is its text, in which * stands for any
	// text: "*connection refused*". They need Columns.Category and Columns.Error.
	Category, Error string

	// Since and Until are when the last attempt ended, Until excluded. They need Columns.Ended.
	Since, Until time.Time

	// Where is a condition in SQL, which must never be made from input. Its $1, $2, … are the
	// args of the method.
	Where string

	// Limit is how many jobs an operation changes at most; 0 means all. A look has 50 if it is 0.
	Limit int

	// After is for [Table.List]: the page begins after the job with this ID, see [Page].Next.
	After *ID

	All bool // every job is meant
}

// Again is how [Table.TryAgain] has jobs tried again.
type Again struct {
	// Spread is the time within which the jobs are due, each at a random instant, so that many
	// are no storm. 0 means that all are due at once.
	Spread time.Duration

	// KeepCounts keeps the attempts and the time of the first one. Otherwise the job begins
	// anew. A job whose attempts are used up ends at once if they are kept and the policy has
	// not been given more.
	KeepCounts bool

	Set string // further assignments in SQL, as in [Set], with the args of the method
}

// TryAgain has jobs tried again that are Dead, or with a Status also those that are Waiting: they
// are Waiting for an instant within Spread. It keeps their error texts.
//
// TryAgain, End, GiveBack, PutOff and TakeOver return how many jobs they have changed. They change
// them in the order of their IDs, 1000 with each statement, so that nobody waits for their locks for
// long. With a [*sql.DB], each statement commits by itself: after an error, n jobs are changed,
// and the same call goes on with the others. With a Tx, all jobs stay locked until it ends. In
// MySQL, such a Tx should be READ COMMITTED.
//
// They are safe beside Workers and beside each other. They raise the fence of each job, so a
// Worker that has a lease of it loses it: its context is canceled within a Heartbeat, and what
// it has done is not stored. The args are those of the SQL in Jobs.Where and Set.
//
// Jobs that are Dead are found in an index, see [Table.Schema]. To find others by something else
// than their IDs may read the whole table.
func (t *Table[ID]) TryAgain(ctx context.Context, db DB, jobs Jobs[ID], how Again, args ...any) (n int64, err error) {
	if how.Spread < 0 {
		return 0, refused("try again: Spread: %v: must not be negative", how.Spread)
	}
	o := sqltable.Again("try again", how.Set, how.Spread, how.KeepCounts)
	return t.operate(ctx, db, jobs, Dead, Dead|Waiting, o, args)
}

// Ending is how [Table.End] ends jobs.
type Ending struct {
	// Status is the word for it: Statuses.Dead or one of Statuses.Done. Empty means
	// Statuses.Dead.
	Status string

	// Error is the text for Columns.Error. Empty keeps the text of a job that becomes Dead, and
	// removes that of another.
	Error string

	Set string // further assignments in SQL, as in [Set], with the args of the method
}

// End ends jobs that are Ready, Waiting or Running. With a Status, it also gives Dead jobs another
// word, or another error text. See [Table.TryAgain].
func (t *Table[ID]) End(ctx context.Context, db DB, jobs Jobs[ID], how Ending, args ...any) (n int64, err error) {
	s, err := t.sql()
	if err != nil {
		return 0, err
	}
	if how.Status == "" {
		how.Status = s.Statuses.Dead
	}
	switch is := s.StatusOf(how.Status, false); {
	case is != sqltable.Dead && is != sqltable.Done:
		return 0, refused("end: Status: %s: must be Statuses.Dead, which is %q, or one of Statuses.Done: %q",
			show.Quote(how.Status), s.Statuses.Dead, s.Statuses.Done)
	case how.Error != "" && s.Columns.Error == "":
		return 0, refused("end: Error: %s: the table has no column for it: name one in Columns.Error", show.Quote(how.Error))
	}
	return t.operate(ctx, db, jobs, Ready|Waiting|Running, Ready|Waiting|Running|Dead,
		sqltable.Over("end", how.Set, how.Status, how.Error), args)
}

// GiveBack takes jobs that are Running away from their workers. They are Ready, are due at once,
// and this attempt does not count. See [Table.TryAgain].
func (t *Table[ID]) GiveBack(ctx context.Context, db DB, jobs Jobs[ID], args ...any) (n int64, err error) {
	return t.operate(ctx, db, jobs, Running, Running, sqltable.Back("give back", "", time.Time{}), args)
}

// PutOff lets jobs that are Ready or Waiting wait until an instant, whether that is later or
// earlier than before. With a Status, it takes Running ones away from their workers too, and
// this attempt does not count. See [Table.TryAgain].
func (t *Table[ID]) PutOff(ctx context.Context, db DB, jobs Jobs[ID], until time.Time, args ...any) (n int64, err error) {
	if year := until.Year(); until.IsZero() || year < 1970 || year > 9999 {
		return 0, refused("put off: until: %v: must be a time in the years 1970 to 9999", until)
	}
	return t.operate(ctx, db, jobs, Ready|Waiting, Ready|Waiting|Running, sqltable.Back("put off", "", until), args)
}

// TakeOver takes over jobs that are Running without a lease, because a program that knows nothing
// of leases has claimed them. They get a lease that has run out: a Worker sweeps them, and its
// policy decides about [retry.ErrLost]. Call it when that program has stopped, or with a Where for
// the jobs that it has left. See [Table.TryAgain].
func (t *Table[ID]) TakeOver(ctx context.Context, db DB, jobs Jobs[ID], args ...any) (n int64, err error) {
	return t.operate(ctx, db, jobs, Running, Running, sqltable.Lost("take over"), args)
}

// operate changes jobs of these states, or of those that jobs names.
func (t *Table[ID]) operate(
	ctx context.Context, db DB, jobs Jobs[ID], usual, allowed Status, o sqltable.Operation, args []any,
) (int64, error) {
	s, err := t.sql()
	if err != nil {
		return 0, err
	}
	if jobs.Status == 0 {
		jobs.Status = usual
	}
	f, err := jobs.filter(s, o.Name, allowed, args)
	if err != nil {
		return 0, err
	}
	if jobs.narrowsNothing() {
		return 0, refused("%s: Jobs: no field but Status and Limit is set: to mean all %v jobs, set All", o.Name, jobs.Status)
	}
	most := int64(jobs.Limit)
	if most == 0 {
		most = math.MaxInt64
	}
	n, err := s.Operate(ctx, db, o, f, most)
	return n, t.explained(ctx, db, err)
}

func (j *Jobs[ID]) narrowsNothing() bool {
	return !j.All && j.IDs == nil && len(j.Kinds) == 0 && j.Category == "" && j.Error == "" && j.Since.IsZero() &&
		j.Until.IsZero() && j.Where == ""
}

// filter is what package sqltable has to know of j.
func (j *Jobs[ID]) filter(s *sqltable.Statements, name string, allowed Status, args []any) (f sqltable.Filter, err error) {
	refuse := func(problem bool, field string, value any, format string, args ...any) {
		if problem && err == nil {
			err = refused("%s: Jobs.%s: %v: %s", name, field, value, fmt.Sprintf(format, args...))
		}
	}
	needs := func(set bool, field string, value any, column, named string) {
		refuse(set && column == "", field, value, "the table has no column for it: name one in Columns.%s", named)
	}
	refuse(j.Status&^allowed != 0, "Status", j.Status, "must be %v", allowed)
	refuse(j.Limit < 0, "Limit", j.Limit, "must not be negative")
	needs(len(j.Kinds) > 0, "Kinds", j.Kinds, s.Columns.Kind, "Kind")
	needs(j.Category != "", "Category", show.Quote(j.Category), s.Columns.Category, "Category")
	needs(j.Error != "", "Error", show.Quote(j.Error), s.Columns.Error, "Error")
	needs(!j.Since.IsZero(), "Since", j.Since, s.Columns.Ended, "Ended")
	needs(!j.Until.IsZero(), "Until", j.Until, s.Columns.Ended, "Ended")
	f = sqltable.Filter{
		Kinds: j.Kinds, Status: sqltable.Status(j.Status), Category: j.Category, Error: j.Error,
		Since: j.Since, Until: j.Until, Where: j.Where, Args: args,
	}
	if j.IDs != nil {
		f.IDs = make([]any, len(j.IDs))
		for i, id := range j.IDs {
			f.IDs[i] = id
		}
	}
	return f, err
}

// explained is an error of an operation or a look. If the database has answered it because the
// table does not fit, that is said.
func (t *Table[ID]) explained(ctx context.Context, db DB, err error) error {
	if err == nil || !dberr.Answered(err) {
		return err
	}
	c, failed := t.compare(ctx, db)
	if failed != nil {
		return err
	}
	if misfit := misfits(c, false); misfit != nil {
		return retry.MarkFinal(fmt.Errorf("%w: %w", err, misfit))
	}
	if lacks := slices.Concat(c.Lacks()); len(lacks) > 0 {
		return fmt.Errorf("%w: Table.Missing adds what the table lacks: %s", err, lacks[0])
	}
	return err
}
