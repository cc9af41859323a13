package shared

import (
	"context"
	"fmt"
	"io"
)

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
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	return nil
}
