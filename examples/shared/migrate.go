package shared

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// Missing is what a [retrytable.Table] of any ID tells of a table in a database.
type Missing interface {
	Missing(ctx context.Context, db retrytable.DB) ([]string, error)
}

// Migrate prints the statements that the table lacks, and runs each after it is printed,
// unless they are only to be printed. It says so if nothing is missing. A migration that
// failed or was interrupted goes on when it is called again.
func (db *DB) Migrate(ctx context.Context, out io.Writer, table Missing, onlyPrint bool) error {
	statements, err := table.Missing(ctx, db)
	if err != nil {
		return err
	}
	if len(statements) == 0 {
		fmt.Fprintln(out, "-- nothing is missing")
	}
	for _, statement := range statements {
		fmt.Fprintf(out, "%s;\n", statement)
		if onlyPrint {
			continue
		}
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	return nil
}
