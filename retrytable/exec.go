package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry"
)

// pick runs s for n rows behind the first few, which it leaves alone, and returns what it
// returns. Where that takes a transaction, it begins one only if there are such rows.
func pick[ID, T any](
	ctx context.Context, db DB, s *statement, n, behind int, args []any, scan func(*sql.Rows) (T, error),
) (all []T, err error) {
	if n <= 0 {
		return nil, nil
	}
	if args, err = s.arguments(args); err != nil {
		return nil, err
	}
	if s.update.sql == "" {
		all, err = queryAll(ctx, db, s.limited(n, behind), s.ordered(args), scan)
		return all, s.failed(err)
	}
	if _, ok := db.(beginner); ok {
		seen, err := queryAll(ctx, db, s.limited(n, behind), s.ordered(args), scanID[ID])
		if err != nil || len(seen) == 0 {
			return nil, s.failed(err)
		}
		n = len(seen) // behind the last of its rows, a statement locks another
	}
	err = inTx(ctx, db, func(db DB) error {
		ids, err := queryAll(ctx, db, s.limited(n, behind)+s.tail, s.ordered(args), scanID[ID])
		if err != nil || len(ids) == 0 {
			return err
		}
		in, picked := listed(ids)
		changed, err := change(ctx, db, s.update.sql+in, append(s.update.ordered(args), picked...))
		if err != nil {
			return err
		}
		if changed != int64(len(ids)) {
			return errNoTx
		}
		all, err = queryAll(ctx, db, s.read.sql+in, picked, scan)
		return err
	})
	if err != nil { // of the commit, and what was picked is not the caller's
		return nil, s.failed(err)
	}
	return all, nil
}

// mostMerged is how many retries a claim looks at, if it claims fewer: so many have their
// place in the order, and they are still read quickly.
const mostMerged = 1000

// mostLocked is how many of the first retries others may hold before a claim finds none.
const mostLocked = 100

// limited is the query for n rows behind the first few.
func (s *statement) limited(n, behind int) string {
	some := strconv.Itoa(n)
	if behind > 0 {
		some = fmt.Sprintf("%d OFFSET %d", n, behind)
	}
	return strings.NewReplacer(
		someRows, some, upToThem, strconv.Itoa(n+behind), manyRows, strconv.Itoa(max(n+behind, mostMerged)),
		someMore, strconv.Itoa(n+behind+mostLocked),
	).Replace(s.sql)
}

// listed returns a list of parameters for the IDs, and those.
func listed[ID any](ids []ID) (in string, args []any) {
	for _, id := range ids {
		args = append(args, id)
	}
	return "(" + strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", ") + ")", args
}

// exec runs s for one row.
func exec(ctx context.Context, db DB, s *statement, users []any, ours ...any) error {
	args, err := s.arguments(users, ours...)
	if err != nil {
		return err
	}
	var changed int64
	if s.update.sql == "" {
		changed, err = change(ctx, db, s.sql, s.ordered(args))
	} else {
		err = inTx(ctx, db, func(db DB) error {
			held, err := queryAll(ctx, db, s.sql, s.ordered(args), scanID[any])
			if err != nil || len(held) == 0 {
				return err
			}
			_, err = change(ctx, db, s.update.sql, s.update.ordered(args))
			changed = 1 // or it had that value already
			return err
		})
	}
	if err != nil {
		return s.failed(err)
	}
	if changed == 0 {
		return ErrLeaseLost
	}
	return nil
}

// change runs a statement, and returns how many rows it has changed.
func change(ctx context.Context, db DB, sql string, args []any) (int64, error) {
	result, err := db.ExecContext(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// beginner is a DB that is no transaction.
type beginner interface {
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}

// inTx calls fn in a transaction of its own, unless db is one. It is READ COMMITTED,
// because what locks gaps between rows as well, locks out other workers.
func inTx(ctx context.Context, db DB, fn func(db DB) error) error {
	outer, ok := db.(beginner)
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

// queryAll reads all that a query returns: SQLite ends a statement only then.
func queryAll[T any](
	ctx context.Context, db DB, query string, args []any, scan func(*sql.Rows) (T, error),
) (all []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		one, scanErr := scan(rows)
		err = cmp.Or(err, scanErr)
		all = append(all, one)
	}
	if err := cmp.Or(err, rows.Err()); err != nil {
		return nil, err
	}
	return all, nil
}

// arguments returns the arguments of the user's, if they are as many as its SQL
// has parameters, and ours.
func (s *statement) arguments(users []any, ours ...any) ([]any, error) {
	if len(users) != s.args {
		return nil, refused("%s: args: %d given, %d wanted by the SQL of the Table", s.name, len(users), s.args)
	}
	return append(slices.Clip(users), ours...), nil
}

func (s *statement) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("retrytable: %s: %w", s.name, err)
}

// refused is the error of an argument that no other attempt makes better.
func refused(format string, args ...any) error {
	return retry.MarkFinal(fmt.Errorf("retrytable: "+format, args...))
}
