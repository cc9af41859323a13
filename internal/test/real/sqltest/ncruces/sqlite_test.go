// Package ncruces_test stands apart because two drivers register themselves as
// "sqlite3".
package ncruces_test

import (
	"database/sql"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/real/sqltest/suite"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	suite.SQLite{
		Open:     func(dsn string) (*sql.DB, error) { return sql.Open("sqlite3", dsn) },
		CantOpen: retry.Verdict{Class: retry.Final, Category: "not_found"}, // the cause is in the error
	}.Run(t)
}
