// Package retrysql retries database transactions, and knows which errors of
// databases are worth it:
//
//	err := retrysql.InTx(ctx, db, &policy, nil, func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE …")
//		return err
//	})
//
// [InTx] runs the whole transaction again, because that is what a database means
// by "serialization failure" or "deadlock": what the transaction has read is
// stale. It rolls back on errors and panics, and never repeats a commit whose
// outcome is unknown unless it is told that it may.
//
// [Classify] judges the errors of PostgreSQL, CockroachDB, MySQL, MariaDB, TiDB,
// SQLite and SQL Server without importing a driver. Set it as the Classifier of
// a [retry.Policy] to use it without InTx.
package retrysql
