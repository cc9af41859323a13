// Package retrytable keeps the state of retries in a table that you have
// already: the runs, tickets or tasks of a program, each of which is worked on
// until it is done or given up. It is for PostgreSQL and SQLite, and imports no
// driver.
//
//	var jobs = &retrytable.Table[int64]{Name: "jobs"}
//
//	rows, err := jobs.Claim(ctx, db, 1)
//	for _, row := range rows {
//		if d, exhausted := policy.Exhausted(row.State, row.Now()); exhausted {
//			err = jobs.Fail(ctx, db, row.ID, row.Fence, d)
//		} else if failure := work(ctx, row.ID); failure != nil {
//			err = jobs.Fail(ctx, db, row.ID, row.Fence, policy.Next(row.State, failure, row.Now()))
//		} else {
//			err = jobs.Succeed(ctx, db, row.ID, row.Fence)
//		}
//		…
//	}
//
// # Leases
//
// A claimed row is leased to whoever claimed it. The attempt is counted by the
// claim, before any work, so that a job that kills its worker ends too; and the
// claim raises the row's fence, by which [Table.Succeed], [Table.Fail],
// [Table.Extend] and [Table.Release] know whether the lease is still the
// caller's. If not, they change nothing and return [ErrLeaseLost].
//
// The lease of a worker that died, or was too slow, runs out. [Table.Sweep] takes
// over such rows, whose last attempt is a failure like others. ErrLost is marked,
// so Policy.Classifier is not asked about it; [retry.Mark] gives it a category:
//
//	rows, err := jobs.Sweep(ctx, db, 100)
//	for _, row := range rows {
//		err = jobs.Fail(ctx, db, row.ID, row.Fence, policy.Next(row.State, retry.ErrLost, row.Now()))
//		…
//	}
//
// # Transactions
//
// Every method is one statement, on a [database/sql.DB], a Conn or a Tx. With a
// Tx, the effect of the work and the state of its row commit together, so that
// the work is done once:
//
//	tx, err := db.BeginTx(ctx, nil)
//	…                                                  // what the work has to write
//	err = jobs.Succeed(ctx, tx, row.ID, row.Fence)     // ErrLeaseLost: roll back
//	err = tx.Commit()
//
// Where a connection breaks while a statement is under way, it may have taken
// effect. A claim that is lost like this ends with its lease; a finish may be
// repeated, and answers ErrLeaseLost if it took effect the first time.
//
// # Time
//
// The clock of the database decides what is due and whose lease has run out, so
// the clocks of the workers need not agree. What a Decision has to say is its
// Delay. SQLite runs in the process, and its clock is that of the machine.
//
// # Speed
//
// With the indexes of [Table.Schema], a claim takes as long with 1,000,000 rows
// as with 10,000, due or waiting. A worker with nothing to do polls with Claim,
// Sweep and perhaps Promote, three statements that write nothing; in SQLite, each
// takes the lock of the writer all the same.
//
// PostgreSQL needs its statistics for that: ANALYZE a table after filling it. And
// a transaction that stays open for minutes slows it down, because index entries
// of finished claims cannot be removed meanwhile. SQLite allows one writer at a
// time: give it one connection, a busy timeout, journal_mode=WAL, and transactions
// that begin as writers (_txlock=immediate, as some drivers call it).
//
// # What it is not
//
// It is not a queue. It starts no goroutine, tells nobody that there is work,
// removes no rows and has no schedule: you ask. If a queue is what you want, use
// one, with a policy of this library through an adapter.
package retrytable
