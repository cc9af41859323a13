package shared

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// Schema is what a program needs of its database.
type Schema struct {
	Program string // its command migrate adds what is missing
	Jobs    *retrytable.Table[string]
	Tables  []Table                  // with what there is besides the columns of Jobs
	Probe   retrytable.Probe[string] // of the writes of its worker
}

// Migration is the command migrate on the database of -dsn: it prints what is missing, and adds it
// unless there is -print.
func Migration(flags *flag.FlagSet, schema func(db *DB) *Schema) Action {
	onlyPrint := flags.Bool("print", false, "print the statements, and change nothing")
	open := func(ctx context.Context, dsn string) (*DB, error) {
		if *onlyPrint {
			return OpenExisting(ctx, dsn)
		}
		return Open(ctx, dsn)
	}
	return On(flags, open, func(ctx context.Context, db *DB, out io.Writer) error {
		return db.Migrate(ctx, out, schema(db), *onlyPrint)
	})
}

var errPrinted = errors.New("only printed")

// Migrate prints the statements for what is missing and runs them, unless they are only to be printed. It
// says so if there are none.
func (db *DB) Migrate(ctx context.Context, out io.Writer, s *Schema, onlyPrint bool) error {
	missing := false
	err := db.migrate(ctx, s, func(statements []string) error {
		missing = true
		fmt.Fprintf(out, "%s;\n", strings.Join(statements, ";\n"))
		if onlyPrint {
			return errPrinted
		}
		return nil
	})
	switch {
	case errors.Is(err, errPrinted):
		return nil
	case err == nil && !missing:
		fmt.Fprintln(out, "-- nothing is missing")
	}
	return err
}

// Check returns an error with the statements for what is missing, or with what a worker cannot write.
func (db *DB) Check(ctx context.Context, s *Schema) error {
	return db.migrate(ctx, s, func(statements []string) error {
		return fmt.Errorf("the tables lack something; %s migrate runs, and with -print prints:\n%s;", s.Program, strings.Join(statements, ";\n"))
	})
}

func (db *DB) migrate(ctx context.Context, s *Schema, tell func(statements []string) error) error {
	return s.Jobs.Migrate(ctx, db.DB, retrytable.Migration[string]{
		Tell: tell, Probe: s.Probe,
		Also: func(ctx context.Context, q retrytable.DB) ([]string, error) { return db.Lacks(ctx, q, s.Tables) },
	})
}
