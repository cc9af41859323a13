package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	_ "modernc.org/sqlite"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	db, _ := sql.Open("sqlite", "file:mails?mode=memory&cache=shared") // or PostgreSQL, MySQL
	table := &retrytable.Table[int64]{Dialect: retrytable.SQLite, Name: "mails", Columns: retrytable.Columns{Error: "error"}}
	setup := "CREATE TABLE mails (id INTEGER PRIMARY KEY);" + table.Schema() + "INSERT INTO mails (id) VALUES (7)"
	if _, err := db.ExecContext(ctx, setup); err != nil {
		log.Fatal(err)
	}
	worker := &retrytable.Worker[int64]{
		Table: table, DB: db, Policy: &retry.Policy{Backoff: retry.Constant(0)}, Poll: time.Millisecond,
		Work: func(_ context.Context, job *retrytable.Job[int64]) error {
			fmt.Println("mail", job.ID, "attempt", job.Attempt())
			if job.Attempt() < 3 {
				return errors.New("mailbox busy") // stored, and tried again when it is due
			}
			stop()
			return nil
		},
	}
	fmt.Println(worker.Run(ctx))
}
