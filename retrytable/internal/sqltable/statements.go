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
	*builder // of a Table with its defaults

	Claim, Sweep, Promote *Pick
	Promotes              bool // a claim promotes first
	Leases                *leases
	Touch                 string // updates no row; "" where a claim that finds none is an UPDATE too

	succeed, retry, die, extend, release, postpone, unstarted *Update
}

// Statements builds them.
func (t *Table) Statements() *Statements {
	b := t.builder()
	touch := ""
	if t.Dialect == MySQL {
		touch = "UPDATE " + b.table + " SET " + b.fence + " = " + b.fence + " WHERE FALSE"
	}
	return &Statements{
		builder:   b,
		Touch:     touch,
		Claim:     b.claim(),
		Sweep:     b.sweep(),
		Promote:   b.promote(),
		Promotes:  t.OrderBy != "" && !t.NoPromote && !t.Merge,
		Leases:    b.leases(),
		succeed:   b.succeed(),
		retry:     b.failing(true, t.Set.Retry),
		die:       b.failing(false, t.Set.End),
		extend:    b.extend(),
		release:   b.release(t.Statuses.Ready, b.forget(""), false),
		postpone:  b.release(t.Statuses.Waiting, b.forget(""), true),
		unstarted: b.release(t.Statuses.Waiting, "", true),
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

// and adds conditions to one. Some may be empty.
func and(first string, more ...string) string {
	all := []string{first}
	for _, condition := range present(slices.Clone(more)...) {
		all = append(all, "("+condition+")")
	}
	return strings.Join(all, " AND ")
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

// Failure is what is stored of a failure.
type Failure struct {
	Retry                          bool
	Delay                          time.Duration // of the retry
	Failures, RateLimited, Pending int
	First                          time.Time
	Category                       string
	Text                           any // a string or nil; only for a table with Columns.Error
}

// fail are the assignments of a failure. It stores the counts as they are, because a claim counts in
// advance: if the failure costs no attempt, the caller has subtracted the attempt already.
func (b *builder) fail(f Failure, parameter func(value any) string) string {
	c, status, due := b.Columns, b.Statuses.Dead, "NULL"
	if f.Retry {
		status = b.Statuses.Waiting
	}
	all := []string{b.status + " = " + literal(status), b.leaseUntil + " = NULL", b.ends()}
	store := func(is bool, column string, value any) {
		if is {
			all = append(all, column+" = "+parameter(value))
		}
	}
	store(f.Retry || c.Attempts != "", b.attempts, int64(f.Failures)) // a retry that is not granted does not count
	store(c.RateLimited != "", b.rateLimited, int64(f.RateLimited))
	store(c.Pending != "", b.pending, int64(f.Pending))
	if c.First != "" {
		first := parameter(sql.NullInt64{Int64: f.First.UnixMicro(), Valid: !f.First.IsZero()})
		all = append(all, b.first+" = coalesce("+b.instants.of(first)+", "+b.first+")")
	}
	if f.Retry {
		due = b.instants.after(parameter(microseconds(f.Delay)))
	}
	all = append(all, b.due+" = "+due)
	store(c.Category != "", b.category, word(f.Category))
	store(c.Error != "", b.text, f.Text)
	return set(all...)
}

// failing is the update for failures that are retried, or for others.
func (b *builder) failing(again bool, addition string) *Update {
	return b.update("fail", set(b.Set.Fail, addition), 0, func(parameter func() string) string {
		return b.fail(Failure{Retry: again}, func(any) string { return parameter() })
	})
}

// Fail stores a failure.
func (s *Statements) Fail(c Claimed, f Failure) *Change {
	u := s.die
	if f.Retry {
		u = s.retry
	}
	var v values
	s.fail(f, v.parameter)
	return &Change{u, c, v.all}
}

func (b *builder) release(status, forget string, later bool) *Update {
	return b.update("release", b.Set.Release, 0, func(parameter func() string) string {
		due := "NULL"
		if later {
			due = b.instants.after(parameter())
		}
		return set(
			b.status+" = "+literal(status),
			forget,
			optional(b.Columns.Attempts, b.attempts+" = "+b.attempts+" - 1"),
			b.due+" = "+due,
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

// RowState is what a row has, besides instants.
type RowState struct {
	Fence                          int64
	Status                         string
	Due, Leased                    bool
	Failures, RateLimited, Pending int
}

// State reads a row. It returns nil if there is no such row.
func (s *Statements) State(ctx context.Context, db DB, id any) (row *RowState, err error) {
	flag := func(column string) string { return "CASE WHEN " + column + " IS NULL THEN 0 ELSE 1 END" }
	q := s.dialect.bind(fmt.Sprintf("SELECT %s, %s, %s, %s FROM %s WHERE %s = $1",
		s.status, flag(s.due), flag(s.leaseUntil), s.lead(s.counted()), s.table, s.id))
	err = each(ctx, db, func(rows *sql.Rows) error {
		row = &RowState{}
		return rows.Scan(&row.Status, &row.Due, &row.Leased, new(any), &row.Fence,
			&row.Failures, &row.RateLimited, &row.Pending, new(any), new(any), new(any), new(any))
	}, q.sql, q.ordered([]any{id})...)
	if err != nil {
		return nil, fmt.Errorf("retrytable: read back: %w", err)
	}
	return row, nil
}
