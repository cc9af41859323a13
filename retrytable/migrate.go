package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// Migration says what [Table.Migrate] does besides. Its zero value is ready to use.
type Migration[ID any] struct {
	// Also, if not nil, returns the statements that add what else the program needs: the table
	// itself without the columns of the Table but its ID, columns of its own, other tables. It changes
	// nothing, and may be called several times. Its
	// statements come first, but for those of indexes, which come after the columns of the Table.
	Also func(ctx context.Context, db DB) ([]string, error)

	// Tell, if not nil, is told all statements before the first one is run. If it returns an error,
	// Migrate returns that and has changed nothing. It is not called if nothing is missing, and called
	// again with other statements if somebody else has changed the table meanwhile.
	Tell func(statements []string) error

	// Probe is for the probe of the result; see [Table.Probe].
	Probe Probe[ID]
}

// Migrate adds what a table in use lacks: the statements of Also and of [Table.Missing], and
// makes sure that a Worker can serve it. What Missing refuses is an error before anything is changed.
//
// Several that run at once take turns, and those after the first find nothing missing. One that was
// killed goes on when it is called again.
//
//   - In PostgreSQL, all but the indexes is one transaction, with a [Table.Probe] at its end: if a
//     write would be refused, or the Probe takes longer than 15 s, nothing has changed: functions of the
//     Probe that use another connection may wait for the tables for ever. It waits for the lock of a table for a second,
//     because others wait behind it, and tries again up to 100 times. Then the indexes are
//     made CONCURRENTLY, and ANALYZE is run. A word that is new to an enum cannot be probed in the transaction.
//     Migrate needs a connection that is its own: not one of a PgBouncer that pools transactions.
//   - In SQLite, all is one transaction with a Probe.
//   - In MySQL, each statement is by itself. Before the first, the columns and indexes of the Table
//     are added to a temporary copy of the table, and probed there without Set and InTx; the copy has neither
//     foreign keys nor triggers. A table with partitions has no copy.
//
// At its end Migrate probes the table, also if nothing was missing.
func (t *Table[ID]) Migrate(ctx context.Context, db *sql.DB, m Migration[ID]) error {
	s, err := t.sql()
	if err != nil {
		return err
	}
	r := &migrating[ID]{Table: t, how: m, db: db, statements: s}
	return migrationPolicy.Execute(ctx, r.try)
}

// migrationPolicy is for locks that others hold, and lost connections.
var migrationPolicy = &retry.Policy{
	Name: "migration", MaxAttempts: 100, Backoff: retry.Constant(time.Second),
	Classifier: func(err error) retry.Verdict {
		v := sqlerr.Classify(err)
		if v.Class != retry.Retryable && !errors.Is(err, errMeanwhile) || errors.Is(err, ErrTable) {
			v.Class = retry.Final
		}
		return v
	},
}

// errMeanwhile is the error if another plan is to be made.
var errMeanwhile = errors.New("retrytable: migrate: somebody else has changed the table meanwhile")

// migrating is one migration.
type migrating[ID any] struct {
	*Table[ID]

	how        Migration[ID]
	db         *sql.DB
	statements *sqltable.Statements
	told       []string
	soiled     bool // the connection has a lock, settings or tables, and is of no use to others
}

// plan is what is to be done.
type plan struct {
	quick []string // in one transaction, where the database can
	slow  []string // after that, each by itself
}

func (p *plan) all() []string { return slices.Concat(p.quick, p.slow) }

// apart matches statements that PostgreSQL does not run in a transaction, and ofIndex those of indexes.
var (
	apart   = regexp.MustCompile(`(?i)\bCONCURRENTLY\b|^\s*(ANALYZE|VACUUM)\b`)
	ofIndex = regexp.MustCompile(`(?i)^\s*(CREATE|DROP)\s+(UNIQUE\s+)?INDEX\b`)
)

// plan finds out what is missing.
func (r *migrating[ID]) plan(ctx context.Context, db DB) (p plan, err error) {
	var also []string
	if r.how.Also != nil {
		if also, err = r.how.Also(ctx, db); err != nil {
			return p, err
		}
	}
	c, err := r.compare(ctx, db)
	if err != nil {
		return p, err
	}
	if err := misfits(c, true); err != nil && (c.IsThere() || len(also) == 0) {
		return p, err
	}
	quick, slow := c.Mends()
	var indexes []string
	for _, statement := range also {
		switch {
		case r.Dialect == PostgreSQL && apart.MatchString(statement):
			p.slow = append(p.slow, statement)
		case ofIndex.MatchString(statement):
			indexes = append(indexes, statement)
		default:
			p.quick = append(p.quick, statement)
		}
	}
	p.quick, p.slow = slices.Concat(p.quick, quick, indexes), append(p.slow, slow...)
	if r.Dialect == SQLite {
		p.quick, p.slow = p.all(), nil
	}
	return p, nil
}

// try makes a plan and runs it, when it is its turn.
func (r *migrating[ID]) try(ctx context.Context) (err error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return err
	}
	r.soiled = false
	defer func() {
		if r.soiled {
			sqlerr.Discard(conn)
		}
		_ = conn.Close()
	}()
	leave, err := r.statements.Turn(ctx, conn)
	if err != nil {
		return fmt.Errorf("retrytable: migrate: %w", err)
	}
	defer func() {
		if failed := leave(ctx); failed != nil {
			err, r.soiled = cmp.Or(err, failed), true
		}
	}()
	p, err := r.plan(ctx, conn)
	if err == nil && r.how.Tell != nil && slices.ContainsFunc(p.all(), func(sql string) bool { return !slices.Contains(r.told, sql) }) {
		r.told = p.all()
		err = r.how.Tell(r.told)
	}
	if err == nil {
		err = r.run(ctx, conn, p)
	}
	return err
}

func (r *migrating[ID]) run(ctx context.Context, conn *sql.Conn, p plan) error {
	var err error
	switch {
	case len(p.quick) == 0:
	case r.Dialect == MySQL:
		err = r.oneByOne(ctx, conn, p.quick)
	default:
		err = r.together(ctx, conn, p)
	}
	for _, statement := range p.slow {
		switch {
		case err != nil:
		case apart.MatchString(statement): // it waits for others and nobody waits for it
			err = r.exec(ctx, conn, statement)
		default:
			err = r.inTx(ctx, conn, func(tx *sql.Tx) error { return r.exec(ctx, tx, statement) })
		}
	}
	if err != nil {
		return err
	}
	return r.probeOn(ctx, r.db, conn, r.how.Probe)
}

func (r *migrating[ID]) exec(ctx context.Context, db DB, statements ...string) error {
	for _, sql := range statements {
		if _, err := db.ExecContext(ctx, sql); err != nil {
			return fmt.Errorf("retrytable: migrate: %s: %w", sql, err)
		}
	}
	return nil
}

// inTx runs fn in a transaction that does not wait for locks for long.
func (r *migrating[ID]) inTx(ctx context.Context, conn *sql.Conn, fn func(tx *sql.Tx) error) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := r.exec(ctx, tx, r.statements.Hurry()...); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// together runs statements in a transaction, which is committed only if a Worker can serve the result.
func (r *migrating[ID]) together(ctx context.Context, conn *sql.Conn, p plan) error {
	const savepoint = "SAVEPOINT retrytable_migrate"
	return r.inTx(ctx, conn, func(tx *sql.Tx) error {
		if r.Dialect == SQLite { // whose turn is that of the transaction
			now, err := r.plan(ctx, tx)
			if err == nil && !slices.Equal(now.quick, p.quick) {
				err = errMeanwhile
			}
			if err != nil {
				return err
			}
		}
		if err := r.exec(ctx, tx, append(p.quick, savepoint)...); err != nil {
			return err
		}
		if err := r.probeLocked(ctx, tx); err != nil {
			return err
		}
		return r.exec(ctx, tx, "ROLLBACK TO "+savepoint)
	})
}

// longestProbe is how long all others wait at most for a probe.
const longestProbe = 15 * time.Second

var errLongProbe = fmt.Errorf("retrytable: probe: not done in %v, for which all others wait: Turn, Insert and InTx must use only their tx", longestProbe)

// probeLocked is a probe while this connection alone has the tables.
func (r *migrating[ID]) probeLocked(ctx context.Context, tx *sql.Tx) error {
	ctx, cancel := context.WithTimeoutCause(ctx, longestProbe, errLongProbe)
	defer cancel()
	err := r.probe(ctx, r.db, tx, r.how.Probe)
	if err != nil && context.Cause(ctx) == errLongProbe { //nolint:errorlint // it is this one
		return fmt.Errorf("%w:\n%w", ErrTable, errLongProbe)
	}
	return err
}

// oneByOne runs statements for MySQL, after a rehearsal.
func (r *migrating[ID]) oneByOne(ctx context.Context, conn *sql.Conn, statements []string) error {
	r.soiled = true
	if err := r.rehearse(ctx, conn); err != nil {
		return err
	}
	err := r.exec(ctx, conn, slices.Concat(r.statements.Hurry(), statements, []string{"SET SESSION lock_wait_timeout = DEFAULT"})...)
	r.soiled = err != nil
	return err
}

// rehearse adds what is missing to a temporary copy of the table, which only this connection sees, and
// probes it.
func (r *migrating[ID]) rehearse(ctx context.Context, conn *sql.Conn) error {
	c, err := r.compare(ctx, conn)
	if err != nil || !c.Copies() {
		return err
	}
	before, after, err := c.Copy(ctx, conn)
	if err != nil {
		return fmt.Errorf("retrytable: migrate: %w", err)
	}
	quick, _ := c.Mends()
	if err := r.exec(ctx, conn, slices.Concat(before, quick, after[:1])...); err != nil {
		return err
	}
	bare := &Table[ID]{
		Dialect: r.Dialect, Name: r.Name, Columns: r.Columns, Statuses: r.Statuses, Instants: r.Instants, Lease: r.Lease,
		Where: r.Where, OrderBy: r.OrderBy, NoPromote: r.NoPromote,
	}
	var w Worker[ID]
	if n := r.statements.Sweep.NArgs; r.how.Probe.Worker != nil && len(r.how.Probe.Worker.ClaimArgs) >= n {
		w.ClaimArgs = r.how.Probe.Worker.ClaimArgs[:n]
	}
	err = bare.probeOn(ctx, r.db, conn, Probe[ID]{Worker: &w})
	return errors.Join(err, r.exec(ctx, conn, after[1:]...))
}
