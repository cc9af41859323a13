package shared

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// Migration is the command migrate on the database of -dsn: it runs the statements for what is
// missing, or, with -print, only prints them.
func Migration(flags *flag.FlagSet, missing func(ctx context.Context, db *DB) ([]string, error)) Action {
	onlyPrint := flags.Bool("print", false, "print the statements, and change nothing: the database is opened to be read")
	return On(flags, Unless(onlyPrint, Open), func(ctx context.Context, db *DB, out io.Writer) error {
		return db.Migrate(ctx, out, missing, *onlyPrint)
	})
}

// Migrate prints the statements for what is missing, and runs each after it is printed, unless
// they are only to be printed. It says so if there are none. A migration that failed or was
// interrupted goes on when it is called again. Those that run together take turns, or, where the
// database has no such lock, go on with what another has left.
func (db *DB) Migrate(
	ctx context.Context, out io.Writer, missing func(ctx context.Context, db *DB) ([]string, error), onlyPrint bool,
) error {
	if db.Dialect == retrytable.PostgreSQL && !onlyPrint {
		turn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = turn.Close() }()
		const lock = "advisory_lock(hashtext('retry systems ' || current_schema()))"
		for mine := false; !mine; { // to wait in a statement would hold up an index that is made CONCURRENTLY
			if err := turn.QueryRowContext(ctx, "SELECT pg_try_"+lock).Scan(&mine); err != nil {
				return err
			}
			if err := Wait(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
		defer func() { _, _ = turn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock_all()") }()
	}
	statements, err := missing(ctx, db)
	if err == nil && len(statements) == 0 {
		fmt.Fprintln(out, "-- nothing is missing")
	}
	for err == nil && len(statements) > 0 {
		statement := statements[0]
		statements = statements[1:]
		fmt.Fprintf(out, "%s;\n", statement)
		if onlyPrint {
			continue
		}
		if failure := db.alter(ctx, statement); failure != nil {
			if statements, err = missing(ctx, db); err == nil && slices.Contains(statements, statement) {
				err = fmt.Errorf("migrate: %w", failure)
			}
		}
	}
	return err
}

// alter runs a statement. All others wait behind a statement that waits for the lock of a
// table: so it gives up after a second, and tries again.
func (db *DB) alter(ctx context.Context, statement string) error {
	switch {
	case db.Dialect == retrytable.MySQL:
		statement = "SET STATEMENT lock_wait_timeout = 1 FOR " + statement
	case db.Dialect == retrytable.PostgreSQL && !strings.Contains(statement, " CONCURRENTLY "):
		statement = "SET LOCAL lock_timeout = '1s'; " + statement
	}
	patience := &retry.Policy{MaxAttempts: 100, Backoff: retry.Constant(time.Second), Classifier: retrysql.Classify}
	return patience.Execute(ctx, func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
}
