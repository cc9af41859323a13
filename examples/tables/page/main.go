// Page shows the jobs of a worker in a browser. Most of them fail.
//
//	go run ./page
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	_ "modernc.org/sqlite"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytable/tablepage"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/jobs\n", listener.Addr())
	log.Fatal(serve(context.Background(), listener))
}

// serve works on jobs, and shows them, until there is an error.
func serve(ctx context.Context, listener net.Listener) error {
	worker, err := newWorker(ctx)
	if err != nil {
		return err
	}
	go func() {
		defer func() { _ = worker.DB.Close() }()
		log.Print(worker.Run(ctx))
	}()
	mux := http.NewServeMux()
	mux.Handle("/jobs", &tablepage.Page{
		Tables: []tablepage.Table{tablepage.Of(worker)},
		Allow: func(r *http.Request, _ tablepage.Action) bool {
			return r.Host == listener.Addr().String() // and not another name that leads here
		},
	})
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	return server.Serve(listener)
}

// newWorker has a table with 60 jobs.
func newWorker(ctx context.Context) (*retrytable.Worker[int64], error) {
	db, err := sql.Open("sqlite", "file::memory:?_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	jobs := &retrytable.Table[int64]{
		Name: "jobs", Dialect: retrytable.SQLite,
		Columns: retrytable.Columns{First: "first_at", Ended: "ended_at", Kind: "kind", Category: "category", Error: "error"},
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE jobs (id INTEGER PRIMARY KEY, payload TEXT);"+jobs.Schema()+
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
		INSERT INTO jobs (kind, payload, due_at)
		SELECT CASE WHEN i % 3 = 0 THEN 'mail' ELSE 'webhook' END, '{"to": "customer ' || i || '"}', 0 FROM n`)
	return &retrytable.Worker[int64]{
		Table: jobs, DB: db, Work: work, Concurrency: 4, OnError: func(_ context.Context, err error) { log.Print(err) },
		Policy: &retry.Policy{Name: "job", MaxAttempts: 3, Backoff: retry.Exponential{Initial: 2 * time.Second}},
	}, err
}

// work mostly fails.
func work(_ context.Context, job *retrytable.Job[int64]) error {
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	switch job.ID % 5 {
	case 0:
		return nil
	case 1:
		return retry.Mark(errors.New("550 no such mailbox"), retry.Verdict{Class: retry.Final, Category: "no_mailbox"})
	default:
		return fmt.Errorf("dial tcp 10.0.0.%d:443: connect: connection refused", job.ID)
	}
}
