package retrysql

import (
	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
)

// Classify is [retry.Classify], which knows the errors of database/sql and its drivers, and reads
// more of their texts.
// The unit of a retry is the whole transaction: a verdict of NotApplied means
// that the transaction was rolled back, or never began. Repeating a single
// statement in an open transaction never helps.
//
// What both say:
//
//   - sql.ErrNoRows and sql.ErrTxDone are Final. driver.ErrBadConn and
//     sql.ErrConnDone are Retryable: they promise that nothing was sent. (lib/pq
//     1.12, and pgx before 5.13 with the SafeToRetry of its errors, break that promise
//     when a connection ends in the middle of a statement. InTx does not rely on
//     that promise at the commit.)
//   - MySQL, MariaDB and TiDB, by the number in the errors of their drivers, and
//     "invalid connection", which may have taken effect.
//   - SQLite, by the code in the errors of modernc.org/sqlite, ncruces/go-sqlite3
//     and mattn/go-sqlite3. BUSY and LOCKED are Retryable.
//   - PostgreSQL's "cached plan must not change result type" is Retryable, because a new
//     connection cures it. A BEGIN that a standby refuses is Retryable. Errors raised in
//     PL/pgSQL (class P0) are Final. The commit of a transaction in which a statement
//     had failed is Final.
//   - A pooler has one code for all its failures, with the severity FATAL: 08P01 of
//     PgBouncer, 58000 of PgCat, XX000 of Supavisor. It is a server that is down, or no
//     free place, but also a wrong password. They are Retryable. With another severity,
//     08P01 and XX000 are PostgreSQL's protocol violation and internal error, and Final,
//     except "tuple concurrently updated": two sessions have changed one object, such as
//     with GRANT, and the transaction only has to be repeated.
//
// Categories are "sql_40001" with the SQLSTATE, "mysql_1213" and "mssql_1205" with the
// error number, and "sqlite_517" with the extended result code. Other codes of MySQL and
// SQLite are Unknown, with a category: a Policy retries them, and for InTx they are
// Final. The errors of a statement that was stopped (57014, 1317, 3024, SQLite's
// INTERRUPT) are Final; if the timeout of an attempt stopped the statement, a Policy and
// InTx know that before they classify.
//
// Only this function reads the texts of MySQL and SQLite in errors of the type that errors.New
// returns, because an ORM may turn a driver's error into such an error, and asks
// go-mssqldb's errors whether they are driver.ErrBadConn.
func Classify(err error) retry.Verdict { return sqlerr.Classify(err) }
