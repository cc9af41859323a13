// Package retrypgx retries transactions of PostgreSQL over pgx, without database/sql:
//
//	err = retrypgx.InTx(ctx, pool, policy, nil, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "NOTIFY transfers")
//		return err
//	})
//
// [InTx] makes the promises of retrysql.InTx: it runs the whole transaction again, rolls
// back on errors and panics, replaces broken connections, and never repeats a commit whose
// outcome is unknown unless it is told that it may.
//
// Send a [pgx.Batch] in such a transaction, and make it in fn, because a batch can be
// sent only once. Outside of a transaction, the outcome of its commit may be unknown too,
// and no error says so.
//
// [Listen] waits for notifications, connects again when the connection is lost, and says
// when notifications may have been missed.
package retrypgx
