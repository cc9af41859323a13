package shared

import (
	"context"
	"flag"
	"fmt"
	"io"
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
	open := func(ctx context.Context, dsn string) (*DB, error) {
		if *onlyPrint {
			return OpenReadOnly(ctx, dsn)
		}
		return Open(ctx, dsn)
	}
	return On(flags, open, func(ctx context.Context, db *DB, out io.Writer) error {
		statements, err := missing(ctx, db)
		if err != nil {
			return err
		}
		return db.Migrate(ctx, out, statements, *onlyPrint)
	})
}

// Migrate prints the statements of a migration, and runs each after it is printed, unless
// they are only to be printed. It says so if there are none. A migration that failed or was
// interrupted goes on when it is called again with what is then missing.
func (db *DB) Migrate(ctx context.Context, out io.Writer, statements []string, onlyPrint bool) error {
	if len(statements) == 0 {
		fmt.Fprintln(out, "-- nothing is missing")
	}
	for _, statement := range statements {
		fmt.Fprintf(out, "%s;\n", statement)
		if onlyPrint {
			continue
		}
		if err := db.alter(ctx, statement); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	return nil
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
