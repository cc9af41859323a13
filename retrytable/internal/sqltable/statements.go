package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// Statements are those of one Table. The parameters of the user come first, so that those of
// ours do not change their numbers.
type Statements struct {
	*Table // with its defaults

	Claim, Sweep, Promote *Pick
	Promotes              bool // a claim promotes first
	Leases                *leases
	Touch                 string // updates no row; "" where a claim that finds none is an UPDATE too

	succeed, retry, die, extend, release, postpone, unstarted *Update

	state query // what a row has
}

// Statements builds them.
func (t *Table) Statements() *Statements {
	b := t.builder()
	touch := ""
	if t.Dialect == MySQL {
		touch = "UPDATE " + b.table + " SET " + b.fence + " = " + b.fence + " WHERE FALSE"
	}
	return &Statements{
		Table:     t,
		Touch:     touch,
		Claim:     b.claim(),
		Sweep:     b.sweep(),
		Promote:   b.promote(),
		Promotes:  t.OrderBy != "" && !t.NoPromote && !t.Merge,
		Leases:    b.leases(),
		succeed:   b.succeed(),
		retry:     b.fail(t.Statuses.Waiting, t.Set.Retry, true),
		die:       b.fail(t.Statuses.Dead, t.Set.End, false),
		extend:    b.extend(),
		release:   b.release(t.Statuses.Ready, b.forget(""), false),
		postpone:  b.release(t.Statuses.Waiting, b.forget(""), true),
		unstarted: b.release(t.Statuses.Waiting, "", true),
		state:     b.state(),
	}
}

// userArgs are the arguments of the user in a statement.
type userArgs struct {
	name  string // of the statement
	NArgs int    // how many there must be
}

// CheckArgs says what is wrong with the user's arguments.
func (u *userArgs) CheckArgs(args []any) error {
	if len(args) != u.NArgs {
		return fmt.Errorf("retrytable: %s: args: %d given, %d wanted by the SQL of the Table", u.name, len(args), u.NArgs)
	}
	for i, arg := range args {
		if _, ok := arg.(error); ok && !isValue(arg) {
			return fmt.Errorf("retrytable: %s: args: $%d is an error, a %T: pass its text, which Error returns", u.name, i+1, arg)
		}
	}
	return nil
}

// UnknownArg says which of the user's arguments has a type that the driver may not take, if
// one has.
func (u *userArgs) UnknownArg(args []any, err error) error {
	for i, arg := range args {
		if !isValue(arg) {
			return fmt.Errorf("retrytable: %s: args: $%d is a %T, which the driver does not take: %w", u.name, i+1, arg, err)
		}
	}
	return nil
}

func (u *userArgs) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("retrytable: %s: %w", u.name, err)
}

// microseconds rounds up, so that nothing is early.
func microseconds(d time.Duration) int64 {
	return int64(sat.Add(max(d, 0), time.Microsecond-1) / time.Microsecond)
}

// set joins assignments, leaving out empty ones. Those of the user go before ours, and
// what reads a column before what changes it: in MySQL, an assignment sees what those
// before it have done.
func set(assignments ...string) string { return strings.Join(present(assignments...), ", ") }

// present returns those that are not empty.
func present(all ...string) []string {
	return slices.DeleteFunc(all, func(one string) bool { return one == "" })
}

// optional is the SQL for an optional column.
func optional(name, sql string) string {
	if name == "" {
		return ""
	}
	return sql
}

func (b *builder) claim() *Pick {
	return b.pick("claim", b.claimIndex(), []string{b.Where, b.ClaimWhere}, b.Set.Claim,
		b.lead(b.begun()), set(
			b.status+" = "+literal(b.Statuses.Running[0]),
			optional(b.Columns.Attempts, b.attempts+" = "+b.counted()+" + 1"),
			b.due+" = NULL",
			b.take(),
			optional(b.Columns.First, b.first+" = coalesce("+b.first+", "+b.instants.now+")"),
		))
}

// sweep takes over the leases that have run out, and counts nothing: the claim
// has. If the sweeper dies, its leases run out in turn.
func (b *builder) sweep() *Pick {
	return b.pick("sweep", b.sweepIndex(), []string{b.Where}, "", b.lead(b.begun()), b.take())
}

func (b *builder) promote() *Pick {
	from, wheres := b.promoteIndex(), []string{b.Where}
	if b.OrderBy == "" { // the index of claims has them too
		from, wheres = b.claimIndex(), []string{b.due + " IS NOT NULL", b.Where}
	}
	return b.pick("promote", from, wheres, b.Set.Promote,
		b.id, set(b.status+" = "+literal(b.Statuses.Ready), b.due+" = NULL"))
}

// take makes a row the caller's.
func (b *builder) take() string {
	lease := strconv.FormatInt(microseconds(b.Lease), 10)
	return set(
		b.leaseUntil+" = "+b.instants.after(lease),
		b.fence+" = coalesce("+b.fence+", 0) + 1",
	)
}

// counted is what the row has counted.
func (b *builder) counted() string { return "coalesce(" + b.attempts + ", 0)" }

// begun is how many attempts a claimed row has begun.
func (b *builder) begun() string {
	if b.Columns.Retries != "" {
		return b.counted() + " + 1"
	}
	return b.counted()
}

// lead is what a Row is read from.
func (b *builder) lead(attempts string) string {
	return set(
		b.id, b.fence, attempts,
		cmp.Or(optional(b.Columns.RateLimited, "coalesce("+b.rateLimited+", 0)"), "0"),
		cmp.Or(optional(b.Columns.Pending, "coalesce("+b.pending+", 0)"), "0"),
		cmp.Or(optional(b.Columns.First, b.instants.micros(b.first)), "NULL"),
		cmp.Or(optional(b.Columns.Kind, b.kind), "NULL"),
		cmp.Or(optional(b.Columns.Key, b.dialect.exactText(b.owner)), "NULL"), b.dialect.clock(),
	)
}

func (b *builder) succeed() *Update {
	return b.update("succeed", b.Set.Succeed, 1, func(parameter func() string) string {
		return set(b.status+" = "+parameter(), b.leaseUntil+" = NULL", b.ends(),
			optional(b.Columns.Category, b.category+" = NULL"), optional(b.Columns.Error, b.text+" = NULL"))
	})
}

// ends writes when an attempt has ended.
func (b *builder) ends() string { return optional(b.Columns.Ended, b.ended+" = "+b.instants.now) }

// Succeed ends a job that is done, with this word for its status.
func (s *Statements) Succeed(c Claimed, word string) *Change {
	return &Change{s.succeed, c, []any{word}}
}

// fail stores the counts as they are, because a claim counts in advance: if the failure
// costs no attempt, the caller has subtracted the attempt already.
func (b *builder) fail(status, addition string, again bool) *Update {
	return b.update("fail", set(b.Set.Fail, addition), 0, func(parameter func() string) string {
		assignments := set(b.status+" = "+literal(status), b.leaseUntil+" = NULL", b.ends())
		if again || b.Columns.Attempts != "" { // a retry that is not granted does not count
			assignments = set(assignments, b.attempts+" = "+parameter())
		}
		if b.Columns.RateLimited != "" {
			assignments = set(assignments, b.rateLimited+" = "+parameter())
		}
		if b.Columns.Pending != "" {
			assignments = set(assignments, b.pending+" = "+parameter())
		}
		if b.Columns.First != "" {
			assignments = set(assignments, b.first+" = coalesce("+b.instants.of(parameter())+", "+b.first+")")
		}
		assignments = set(assignments, b.next(again, parameter))
		if b.Columns.Category != "" {
			assignments = set(assignments, b.category+" = "+parameter())
		}
		if b.Columns.Error != "" {
			assignments = set(assignments, b.text+" = "+parameter())
		}
		return assignments
	})
}

// Failure is what is stored of a failure.
type Failure struct {
	Retry                          bool
	Delay                          time.Duration // of the retry
	Failures, RateLimited, Pending int
	First                          time.Time
	Category                       string
	Text                           any // a string or nil; only for a table with Columns.Error
}

// Fail stores a failure.
func (s *Statements) Fail(c Claimed, f Failure) *Change {
	u, columns := s.die, s.Columns
	var values []any // in the order of the parameters of fail
	if f.Retry || columns.Attempts != "" {
		values = append(values, int64(f.Failures))
	}
	if columns.RateLimited != "" {
		values = append(values, int64(f.RateLimited))
	}
	if columns.Pending != "" {
		values = append(values, int64(f.Pending))
	}
	if columns.First != "" {
		values = append(values, sql.NullInt64{Int64: f.First.UnixMicro(), Valid: !f.First.IsZero()})
	}
	if f.Retry {
		u, values = s.retry, append(values, microseconds(f.Delay))
	}
	if columns.Category != "" {
		values = append(values, word(f.Category))
	}
	if columns.Error != "" {
		values = append(values, f.Text)
	}
	return &Change{u, c, values}
}

// next is when a row is due that is not claimed any more.
func (b *builder) next(again bool, parameter func() string) string {
	if again {
		return b.due + " = " + b.instants.after(parameter())
	}
	return b.due + " = NULL"
}

func (b *builder) release(status, forget string, later bool) *Update {
	return b.update("release", b.Set.Release, 0, func(parameter func() string) string {
		return set(
			b.status+" = "+literal(status),
			forget,
			optional(b.Columns.Attempts, b.attempts+" = "+b.attempts+" - 1"),
			b.next(later, parameter),
			b.leaseUntil+" = NULL",
		)
	})
}

// forget clears the time of the first attempt, if the attempt that is taken back was the
// first. It is not for rows for which a further condition, which ends with AND, does not hold.
func (b *builder) forget(condition string) string {
	none := cmp.Or(optional(b.Columns.Attempts, " <= 1"), " <= 0")
	return optional(b.Columns.First, b.first+" = CASE WHEN "+condition+b.attempts+none+
		optional(b.Columns.RateLimited, " AND coalesce("+b.rateLimited+", 0) = 0")+
		optional(b.Columns.Pending, " AND coalesce("+b.pending+", 0) = 0")+" THEN NULL ELSE "+b.first+" END")
}

// Release gives back a row, which is due again after a delay. If its attempt could not start,
// the row keeps the time of the first such attempt, so that the job ends some day.
func (s *Statements) Release(c Claimed, delay time.Duration, unstarted bool) *Change {
	switch {
	case unstarted:
		return &Change{s.unstarted, c, []any{microseconds(delay)}}
	case delay > 0:
		return &Change{s.postpone, c, []any{microseconds(delay)}}
	default:
		return &Change{s.release, c, nil}
	}
}

func (b *builder) extend() *Update {
	longer := func(parameter func() string) string { return b.leaseUntil + " = " + b.instants.after(parameter()) }
	u := b.update("extend", "", 1, longer)
	u.updater = b.dialect.extender(b, longer)
	return u
}

// Extend makes a lease end after d, or after Table.Lease if d is 0 or less.
func (s *Statements) Extend(c Claimed, d time.Duration) *Change {
	if d <= 0 {
		d = s.Lease
	}
	return &Change{s.extend, c, []any{microseconds(d)}}
}

// state reads what a row has.
func (b *builder) state() query {
	flag := func(column string) string { return "CASE WHEN " + column + " IS NULL THEN 0 ELSE 1 END" }
	return b.dialect.bind(fmt.Sprintf("SELECT %s, %s, %s, %s FROM %s WHERE %s = $1",
		b.status, flag(b.due), flag(b.leaseUntil), b.lead(b.counted()), b.table, b.id))
}

// RowState is what a row has, besides instants.
type RowState struct {
	Fence                          int64
	Status                         string
	Due, Leased                    bool
	Failures, RateLimited, Pending int
}

// State reads a row. It returns nil if there is no such row.
func (s *Statements) State(ctx context.Context, db DB, id any) (row *RowState, err error) {
	err = each(ctx, db, func(rows *sql.Rows) error {
		row = &RowState{}
		var due, leased int64
		var first, kind, key, now any
		err := rows.Scan(&row.Status, &due, &leased, new(any), &row.Fence,
			&row.Failures, &row.RateLimited, &row.Pending, &first, &kind, &key, &now)
		row.Due, row.Leased = due == 1, leased == 1
		return err
	}, s.state.sql, s.state.ordered([]any{id})...)
	if err != nil {
		return nil, fmt.Errorf("retrytable: read back: %w", err)
	}
	return row, nil
}
