package sqltest_test

import (
	"database/sql"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/sqltest/suite"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	for name, driver := range map[string]string{"modernc": "sqlite", "mattn": mattn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if driver == "" {
				t.Skip("needs a C compiler")
			}
			suite.SQLite{
				Open:     func(dsn string) (*sql.DB, error) { return sql.Open(driver, dsn) },
				CantOpen: retry.Verdict{Category: "sqlite_14"},
			}.Run(t)
		})
	}
}
