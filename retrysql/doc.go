// Package retrysql retries database transactions, and knows which errors of
// databases are worth a retry:
//
//	err := retrysql.InTx(ctx, db, &policy, nil, func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE …")
//		return err
//	})
//
// [InTx] runs the whole transaction again, because after a "serialization
// failure" or a "deadlock" the data that the transaction has read is stale. It
// rolls back on errors and panics, and repeats a commit whose outcome is unknown
// only if its options allow that.
//
// [Classify] classifies the errors of PostgreSQL, CockroachDB, MySQL, MariaDB,
// TiDB, SQLite and SQL Server without importing a driver. Set it as the
// Classifier of a [retry.Policy] to use it without InTx.
package retrysql
