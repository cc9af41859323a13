package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/dberr"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// Probe says what a program writes, for [Table.Probe]. Its zero value is for programs that write
// nothing but what the Table writes.
type Probe[ID any] struct {
	// Worker, if not nil, has the program's own part: its ClaimArgs, Turn, FinishArgs and InTx are
	// used, and its Lost for a failure. It needs neither a Table nor a DB nor Work.
	Worker *Worker[ID]

	// Insert, if not nil, inserts a row that is due, as the program does. It is called if no row is
	// due. A number that a sequence gives it is used up.
	Insert func(ctx context.Context, tx *sql.Tx) error
}

// Probe makes every write of a Worker, and rolls it back: it claims a row, gives it back, extends
// its lease, and ends it with each of Statuses.Done, with a retry and for good, each with the writes of
// the Worker's InTx. So a constraint, a trigger or a privilege that would refuse one of them is known at
// the start, and not when a job has done its work. ClaimWhere holds back no row here.
//
// The error has [ErrTable] in it, and each write that was refused; a failure of the database is
// returned alone. If no row is due and there is no Insert, only the SQL of the claim is tried, and that is no
// error. The claimed row is locked for the time of the probe, in a transaction of its own.
func (t *Table[ID]) Probe(ctx context.Context, db *sql.DB, p Probe[ID]) error {
	return t.probeOn(ctx, db, db, p)
}

// probeOn is Probe with a transaction of a connection of db, or of db itself. A claim in it does not
// lock other workers out.
func (t *Table[ID]) probeOn(ctx context.Context, db *sql.DB, conn sqltable.Beginner, p Probe[ID]) error {
	var options sql.TxOptions
	if t.Dialect == MySQL {
		options.Isolation = sql.LevelReadCommitted
	}
	tx, err := conn.BeginTx(ctx, &options)
	if err != nil {
		return fmt.Errorf("retrytable: probe: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	return t.probe(ctx, db, tx, p)
}

// probe makes the writes in a transaction, which the caller rolls back to before it.
func (t *Table[ID]) probe(ctx context.Context, db *sql.DB, tx *sql.Tx, p Probe[ID]) error {
	w := Worker[ID]{}
	if p.Worker != nil {
		w = *p.Worker
	}
	w.Table, w.DB, w.Heartbeat = t, db, 0
	w.Work = func(context.Context, *Job[ID]) error { return nil }
	s, err := w.shift(ctx)
	if err != nil {
		return err
	}
	s.tell = func(error) {} // of a kind that has no policy
	run := &probing[ID]{storing: s.storing(), tx: tx}
	if immediate := s.statements.ChecksAtOnce(); immediate != "" {
		if _, err := tx.ExecContext(ctx, immediate); err != nil {
			return fmt.Errorf("retrytable: probe: %w", err)
		}
	}
	row, err := run.claim(ctx, p.Insert)
	if err == nil && row != nil {
		run.finish(ctx, row)
	}
	switch {
	case run.failed != nil:
		return fmt.Errorf("retrytable: probe: %w", run.failed)
	case err != nil || len(run.faults) > 0:
		return fmt.Errorf("%w:\n%w", ErrTable, errors.Join(append(run.faults, err)...))
	default:
		return nil
	}
}

// probing is one probe.
type probing[ID any] struct {
	*storing[ID]

	tx     *sql.Tx
	faults []error // the writes that were refused
	failed error   // there is no answer of the database
}

// errProbe is the failure of a job that is no job, unless the Worker has a Lost.
var errProbe = errors.New("probe")

const savepoint = "SAVEPOINT retrytable_probe"

// try makes a write. Its effect stays if keep says so, and it was not refused.
func (p *probing[ID]) try(ctx context.Context, name string, keep bool, write func() error) (ok bool) {
	if p.failed != nil {
		return false
	}
	exec := func(sql string) bool {
		_, p.failed = p.tx.ExecContext(ctx, sql)
		return p.failed == nil
	}
	if !exec(savepoint) {
		return false
	}
	err := engine.Guard(name, write)
	switch {
	case err == nil, dberr.IsNewWord(err): // such a word can be used only once it is committed
	case ctx.Err() != nil, sqlerr.Classify(err).Class == retry.Retryable:
		p.failed = err
		return false
	default:
		p.faults = append(p.faults, fmt.Errorf("retrytable: probe: %s: %w", name, err))
	}
	if err == nil && keep {
		return exec("RELEASE " + savepoint)
	}
	return exec("ROLLBACK TO "+savepoint) && exec("RELEASE "+savepoint) && err == nil
}

// claim claims a row: one that is due, or one that is inserted.
func (p *probing[ID]) claim(ctx context.Context, insert func(context.Context, *sql.Tx) error) (*Row[ID], error) {
	if p.Turn != nil && !p.try(ctx, "Turn", true, func() error { return p.Turn(ctx, p.tx) }) {
		return nil, nil
	}
	from := p.statements.ClaimOfAny()
	for inserted := false; ; inserted = true {
		var rows []Row[ID]
		took := p.try(ctx, "claim", true, func() (err error) {
			rows, err = sqltable.Rows(ctx, p.tx, from, sqltable.Some{N: 1}, p.ClaimArgs, scanRow[ID])
			return err
		})
		switch {
		case took && len(rows) > 0:
			return &rows[0], nil
		case took && inserted:
			return nil, errors.New("retrytable: probe: Insert: a claim does not take its row: it must be due, and meet Table.Where")
		case !took || insert == nil || !p.try(ctx, "Insert", true, func() error { return insert(ctx, p.tx) }):
			return nil, nil
		}
	}
}

// finish ends a claimed row in every way.
func (p *probing[ID]) finish(ctx context.Context, row *Row[ID]) {
	failure := cmp.Or(p.Lost, errProbe)
	again := new(retry.Policy).Next(retry.State{}, failure, row.Now())
	again.Delay = 0
	dead := new(retry.Policy).Next(retry.State{Failures: 2}, failure, row.Now())
	p.try(ctx, "extend", false, func() error { return exec(ctx, p.tx, p.statements.Extend(row.claimed(nil), 0)) })
	p.try(ctx, "sweep", false, func() error {
		_, err := sqltable.Rows(ctx, p.tx, p.statements.Sweep, sqltable.Some{N: 1}, p.ClaimArgs[:p.statements.Sweep.NArgs], scanRow[ID])
		return err
	})
	for _, delay := range []time.Duration{0, time.Second} {
		p.end(ctx, "release", row, Outcome[ID]{Released: true, Err: errProbe, Decision: retry.Decision{Delay: delay}}, "")
	}
	for _, word := range p.statements.Statuses.Done {
		p.end(ctx, "succeed as "+word, row, Outcome[ID]{}, word)
	}
	p.end(ctx, "fail, for a retry", row, Outcome[ID]{Err: failure, Decision: again}, "")
	p.end(ctx, "fail, for good", row, Outcome[ID]{Err: failure, Decision: dead}, "")
}

// end writes an outcome. A retry is also promoted, if the Table does that.
func (p *probing[ID]) end(ctx context.Context, name string, row *Row[ID], o Outcome[ID], word string) {
	p.try(ctx, name, false, func() error {
		o.Job = &Job[ID]{Row: *row, status: word}
		_ = p.equip(o.Job, nil)
		c, err := p.changeFor(&o)
		if err == nil {
			err = exec(ctx, p.tx, c)
		}
		if err == nil && !o.Released {
			err = p.effects(ctx, p.tx, &o)
		}
		if from := p.statements.Promote; err == nil && o.Decision.Retry && p.statements.OrderBy != "" && !p.Table.Merge && from.NArgs <= len(p.ClaimArgs) {
			_, err = sqltable.Rows(ctx, p.tx, from, sqltable.Some{N: 1}, p.ClaimArgs[:from.NArgs], scanID[ID])
		}
		return err
	})
}
