package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
)

// pick runs s for n rows, and returns what it returns. Where that takes a transaction, it
// begins one only if there are such rows.
func pick[ID, T any](
	ctx context.Context, db DB, s *statement, n int, which listed, args []any, scan func(*sql.Rows) (T, error),
) (all []T, err error) {
	if n <= 0 {
		return nil, nil
	}
	if args, err = s.arguments(args); err != nil {
		return nil, err
	}
	sql, given := s.narrow(s.query, n, which, args)
	if s.update.sql == "" {
		all, err = queryAll(ctx, db, sql, given, scan)
		return all, s.failed(err)
	}
	if _, ok := db.(beginner); ok {
		seen, err := queryAll(ctx, db, sql, given, scanID[ID])
		if err != nil || len(seen) == 0 {
			return nil, s.failed(err)
		}
		n = len(seen) // behind the last of its rows, a statement locks another
		sql, given = s.narrow(s.query, n, which, args)
	}
	err = inTx(ctx, db, func(db DB) error {
		ids, err := queryAll(ctx, db, sql+s.tail, given, scanID[ID])
		if err != nil || len(ids) == 0 {
			return err
		}
		in, picked := inList(ids)
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

// listed are the IDs of rows, of which a statement takes some, or none. Without IDs, it may
// take all rows.
type listed struct {
	ids  []any
	none bool
}

// narrow returns q for n of those rows, and its arguments.
func (s *statement) narrow(q query, n int, which listed, args []any) (sql string, all []any) {
	all = q.ordered(args)
	condition := ""
	if len(which.ids) > 0 {
		word := " IN ("
		if which.none {
			word = " NOT IN ("
		}
		condition = s.bind(" AND " + s.id + word + numbers(len(all), len(which.ids)) + ")").sql
		all = append(slices.Clip(all), padded(which.ids)...)
	}
	return strings.NewReplacer(
		someRows, strconv.Itoa(n), manyRows, strconv.Itoa(max(n, mostMerged)), someMore, strconv.Itoa(n+mostLocked),
		theseRows, condition,
	).Replace(q.sql), all
}

// numbers is a list of parameters for so many IDs, behind the first ones. IDs are padded to
// a power of two, so that there are few such statements.
func numbers(behind, ids int) string {
	parameter := numbered(behind)
	var all []string
	for range paddedTo(ids) {
		all = append(all, parameter())
	}
	return strings.Join(all, ", ")
}

func padded(ids []any) []any {
	last := ids[len(ids)-1:]
	return append(slices.Clip(ids), slices.Repeat(last, paddedTo(len(ids))-len(ids))...)
}

func paddedTo(n int) int { return 1 << bits.Len(uint(n-1)) }

// inList returns a list of parameters for the IDs, and those.
func inList[ID any](ids []ID) (in string, args []any) {
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

// queryAll reads all that a query returns: SQLite ends a statement only then. In a query, a
// Value method that panics would keep its connection, so it is called before.
func queryAll[T any](
	ctx context.Context, db DB, query string, args []any, scan func(*sql.Rows) (T, error),
) (all []T, err error) {
	for _, arg := range args {
		if _, ok := arg.(driver.Valuer); ok {
			_ = isValue(arg)
		}
	}
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
	for i, arg := range users {
		if _, ok := arg.(error); ok && !isValue(arg) {
			return nil, refused("%s: args: $%d is an error, a %T: pass its text, which Error returns", s.name, i+1, arg)
		}
	}
	return append(slices.Clip(users), ours...), nil
}

// unfit is the error of an argument of a type that the driver does not know, if err is about
// that: it is of neither the database nor the network.
func (s *statement) unfit(users []any, err error) error {
	if err == nil || maybeOfRow(err) || sqlerr.Classify(err).Class != retry.Unknown {
		return nil
	}
	for i, arg := range users {
		if !isValue(arg) {
			return refused("%s: args: $%d is a %T, which the driver does not take: %w", s.name, i+1, arg, err)
		}
	}
	return nil
}

// isValue reports whether every driver takes an argument.
func isValue(arg any) bool {
	_, err := driver.DefaultParameterConverter.ConvertValue(arg)
	return err == nil
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
