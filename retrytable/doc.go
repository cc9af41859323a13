// Package retrytable keeps the state of retries in a table that you have
// already: the runs, tickets or tasks of a program, each of which is worked on
// until it is done or given up. It is for PostgreSQL, SQLite, MySQL and MariaDB,
// and imports no driver.
//
//	var jobs = &retrytable.Table[int64]{Name: "jobs", Columns: retrytable.Columns{Error: "error"}}
//
//	w := &retrytable.Worker[int64]{Table: jobs, DB: db, Policy: policy, Work: work}
//	err := w.Run(ctx)
//
// A [Worker] is a loop over the methods of [Table], which a program may also write
// itself:
//
//	rows, err := jobs.Claim(ctx, db, 1)
//	for _, row := range rows {
//		if d, exhausted := policy.Exhausted(row.State, row.Now()); exhausted {
//			err = jobs.Fail(ctx, db, row.Lease, d)
//		} else if failure := work(ctx, row.ID); failure != nil {
//			err = jobs.FailWith(ctx, db, row.Lease, policy.Next(row.State, failure, row.Now()), failure)
//		} else {
//			err = jobs.Succeed(ctx, db, row.Lease)
//		}
//		…
//	}
//
// # Leases
//
// A claimed row is leased to the worker that claimed it. The claim counts the attempt
// before any work, so that a job that kills its worker ends too; if the table counts
// Retries instead, such a job is counted when it is swept. The claim also raises
// the row's fence. By the fence, [Table.Succeed], [Table.Fail], [Table.Extend] and
// [Table.Release] know whether the caller still has the lease. If it has not, they change
// nothing and return [ErrLeaseLost].
//
// The lease of a worker that died, or was too slow, runs out. [Table.Sweep] takes
// over such rows. Their last attempt is a failure with [retry.ErrLost]. ErrLost is
// marked, so Policy.Classifier is not asked about it; [retry.Mark] gives it a category:
//
//	rows, err := jobs.Sweep(ctx, db, 100)
//	for _, row := range rows {
//		err = jobs.FailWith(ctx, db, row.Lease, policy.Next(row.State, retry.ErrLost, row.Now()), retry.ErrLost)
//		…
//	}
//
// # Transactions
//
// Every method is one statement, on a [database/sql.DB], a Conn or a Tx. Only Claim with
// an OrderBy is two. In MySQL, Claim, Sweep, Promote and Extend are several statements in
// a transaction, which they begin if they are not in one. With a Tx, the effect of the
// work and the state of its row commit together, so that the work is done once:
//
//	tx, err := db.BeginTx(ctx, nil)
//	…                                                  // what the work has to write
//	err = jobs.Succeed(ctx, tx, row.Lease)     // ErrLeaseLost: roll back
//	err = tx.Commit()
//
// If a connection breaks during a statement, the statement may have taken effect. A claim
// that is lost like this ends with its lease. A finish may be repeated: it returns
// ErrLeaseLost if it took effect the first time, or if somebody else has changed the row.
// A Worker reads the row to find out which.
//
// # Time
//
// The clock of the database decides which rows are due and which leases have run out, so
// the clocks of the workers need not agree. Of a Decision, Delay is used, and not At.
// SQLite runs in the process and uses the clock of the machine.
//
// # Speed
//
// With the indexes of [Table.Schema], a claim takes as long with 1,000,000 rows
// as with 10,000, due or waiting. A worker with nothing to do polls with Claim and Sweep.
// They write nothing then, but in SQLite they still take the writer's lock.
//
// PostgreSQL needs its statistics for that: ANALYZE a table after filling it. While a
// transaction stays open, PostgreSQL cannot remove the index entries of finished claims,
// so claims become many times slower within a minute. That is over when the transaction
// ends. SQLite allows one writer at a time: give it one connection, a busy timeout,
// journal_mode=WAL, and transactions that begin as writers (_txlock=immediate, as some
// drivers call it).
//
// # MySQL and MariaDB
//
// What is said of MySQL here is true of MariaDB too. Both have neither partial indexes
// nor UPDATE … RETURNING. So [Table.Schema] adds invisible generated columns, with the
// instant at which a row is due or its lease ends. Their names have a digest of the
// statuses, columns and Where that they depend on. A statement whose column is missing
// fails, and [Table.Check] names the column. To change the statuses, columns or Where,
// run what [Table.Missing] returns, and drop the old generated columns when no program uses
// them any more.
//
//   - Claim, Sweep and Promote look whether there are rows for them. If so, they lock them
//     with SKIP LOCKED, change them and read them, in a transaction that is READ COMMITTED:
//     at other levels, workers wait for each other. A Tx in which you call them should be
//     READ COMMITTED too. If your DB is a wrapper, it must have the method BeginTx, or be a
//     transaction.
//   - The methods wait for each other only at a row, and lock no gaps, so they have no
//     deadlocks among themselves. Your transactions may have deadlocks: error 1213.
//   - Instants are datetime(6) in UTC, whatever the time zone of the session and the
//     parseTime and loc of the driver are. Read them as an [Instant].
//   - An OrderBy has columns only, no expressions. Text columns in it must be varchar.
//     For an OrderBy with DESC, MariaDB before 10.8 sorts the rows.
//   - In Set, an assignment sees the results of the assignments before it in the same
//     field.
//   - To most collations, words of a status that differ only in capitals are the same.
//
// # People
//
// [Table.Counts], [Table.Failures], [Table.List] and [Table.Find] show what waits, runs and died, and
// why. [Table.TryAgain], [Table.End], [Table.GiveBack], [Table.PutOff] and [Table.TakeOver] change
// jobs beside running Workers. Package tablepage has all of it for a browser. Name
// Columns.Error, Category and Ended for them.
//
// # What is not promised
//
// A fence is as durable as the database. With synchronous_commit=off, or where an
// asynchronous replica takes over, a crash of the server may undo a claim. The same fence
// is then given again, so do not use fences as tokens outside of the database.
//
// On a network that hangs, some drivers return later than their context says. A [Worker]
// goes on without them, but a connection that became silent within a transaction keeps the
// lock of its row until the server ends it: set idle_in_transaction_session_timeout in
// PostgreSQL, or idle_transaction_timeout in MariaDB, to less than a lease. A connection
// that a driver waits for stays open: set readTimeout in the DSN of go-sql-driver.
//
// A server may become read-only in a switchover and keep its connections. A [Worker] then closes
// those that are idle, and finds that out in 5 seconds if it has nothing to do. For the statements
// of your own, set rejectReadOnly=true in the DSN of go-sql-driver, or use retrysql.
//
// # What it is not
//
// It is not a queue. It tells nobody that there is work, but by [Table].Notify, removes no rows and has no
// schedule, and starts no goroutine outside of [Worker.Run] and Once. If you need a queue, use a
// job engine, with a policy of this library through an adapter.
package retrytable
