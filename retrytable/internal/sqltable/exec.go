package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/bits"
	"slices"
	"strings"
)

// DB is a *sql.DB, a *sql.Conn or a *sql.Tx.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query is SQL that is ready to be run.
type query struct {
	sql string

	// order has the number of the argument of each parameter, for a database whose parameters
	// have no numbers. nil means that they have numbers.
	order []int
}

// ordered returns the arguments of q out of all arguments.
func (q query) ordered(all []any) []any {
	if q.order == nil {
		return all
	}
	args := make([]any, len(q.order))
	for i, n := range q.order {
		args[i] = all[n-1]
	}
	return args
}

// change runs q, and returns how many rows it has changed.
func (q query) change(ctx context.Context, db DB, args []any) (int64, error) {
	result, err := db.ExecContext(ctx, q.sql, q.ordered(args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// each calls scan for every row that a query returns. It reads all rows even after an error
// of scan, because SQLite ends a statement only then. A Value method that panics within the
// query would keep its connection, so it is called before.
func each(ctx context.Context, db DB, scan func(*sql.Rows) error, query string, args ...any) (err error) {
	for _, arg := range args {
		if _, ok := arg.(driver.Valuer); ok {
			_ = isValue(arg)
		}
	}
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		err = cmp.Or(err, scan(rows))
	}
	return cmp.Or(err, rows.Err())
}

// ids returns the IDs that a query returns.
func (t *Table) ids(ctx context.Context, db DB, query string, args ...any) (all []any, err error) {
	err = each(ctx, db, func(rows *sql.Rows) error {
		id, err := t.ScanID(rows)
		all = append(all, id)
		return err
	}, query, args...)
	return all, err
}

// Beginner is a DB that is no transaction.
type Beginner interface {
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}

// InTx calls fn in a transaction of its own, unless db is one. It is READ COMMITTED,
// because an isolation that locks gaps between rows too locks out other workers.
func InTx(ctx context.Context, db DB, fn func(db DB) error) error {
	outer, ok := db.(Beginner)
	if !ok {
		return fn(db)
	}
	tx, err := outer.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// errNoTx is the error if rows were locked and have changed nevertheless.
var errNoTx = errors.New("the DB neither is a transaction nor has a method BeginTx")

// isValue reports whether every driver takes an argument.
func isValue(arg any) bool {
	_, err := driver.DefaultParameterConverter.ConvertValue(arg)
	return err == nil
}

// powerOfTwo is the next power of two, so that there are few statements for numbers from 1 on.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }

// idList is a list of parameters for IDs, after the first few parameters, and the arguments
// for it. They are padded, so that there are few such statements.
func idList(skip int, ids []any) (list string, args []any) {
	n := powerOfTwo(len(ids))
	parameter := numbered(skip)
	var all []string
	for range n {
		all = append(all, parameter())
	}
	last := ids[len(ids)-1:]
	return "(" + strings.Join(all, ", ") + ")", slices.Concat(ids, slices.Repeat(last, n-len(ids)))
}
