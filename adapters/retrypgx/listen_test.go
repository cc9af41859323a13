package retrypgx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrypgx"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// TestListen loses the connection of a listener several times, more often than the policy
// has attempts.
func TestListen(t *testing.T) {
	t.Parallel()
	d := open(t)
	channel := d.table + `"; DROP` // a name is quoted
	listening := make(chan uint32)
	heard := make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- retrypgx.Listen(ctx, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, retrypgx.Listener{
			Connect:  func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, dsn()) },
			Channels: []string{channel},
			Listening: func(_ context.Context, conn *pgx.Conn) error {
				listening <- conn.PgConn().PID()
				return nil
			},
			Notified: func(_ context.Context, n *pgconn.Notification) error {
				heard <- n.Payload
				return nil
			},
		})
	}()
	for range 4 {
		pid := <-listening
		d.exec(t, "SELECT pg_notify($1, 'job')", channel)
		assert.Equal(t, "job", <-heard)
		killAll(t, pid)
	}
	<-listening
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestListenGivesUp(t *testing.T) {
	t.Parallel()
	policy, recorder := quick(3)
	l := retrypgx.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.Connect(ctx, "postgres://nobody@127.0.0.1:1/nowhere?connect_timeout=5")
		},
		Channels: []string{"jobs"},
		Notified: func(context.Context, *pgconn.Notification) error { return nil },
	}
	err := retrypgx.Listen(t.Context(), policy, l)
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Len(t, recorder.Waits(), 2)
}

// TestListenEnds ends with the error of Listening, which is nobody else's.
func TestListenEnds(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "PostgreSQL")
	policy, _ := quick(3)
	boom := errors.New("boom")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.Equal(t, boom, retrypgx.Listen(ctx, policy, retrypgx.Listener{
		Connect:   func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, dsn()) },
		Channels:  []string{"jobs"},
		Listening: func(context.Context, *pgx.Conn) error { return boom },
		Notified:  func(context.Context, *pgconn.Notification) error { return nil },
	}))
}

// woken is a table with a Worker that polls once in an hour, and what listens for it.
type woken struct {
	db    *sql.DB
	table *retrytable.Table[int64]
	done  chan int64
	pids  chan uint32 // of each connection that listens
}

func openWoken(t *testing.T) *woken {
	t.Helper()
	testkit.Needs(t, "PostgreSQL")
	db := testkit.Must(sql.Open("pgx", dsn()))(t)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	name := fmt.Sprintf("retrypgx_%x", rand.Uint64())
	w := &woken{
		db: db, done: make(chan int64, 1000), pids: make(chan uint32, 10),
		table: &retrytable.Table[int64]{Name: name, Notify: name + " $notify$ 'x'"},
	}
	w.exec(t, "CREATE TABLE "+name+" (id bigint PRIMARY KEY)")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := db.ExecContext(ctx, "DROP TABLE "+name)
		assert.NoError(t, err)
		var function string
		assert.NoError(t, db.QueryRowContext(ctx, "SELECT max(oid::regprocedure::text) FROM pg_proc WHERE proname LIKE $1", name+"%").Scan(&function))
		_, err = db.ExecContext(ctx, "DROP FUNCTION "+function)
		assert.NoError(t, err)
	})
	require.NoError(t, w.table.Migrate(t.Context(), db, retrytable.Migration[int64]{}))
	require.Empty(t, testkit.Must(w.table.Missing(t.Context(), db))(t))
	return w
}

func (w *woken) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	testkit.Must(w.db.ExecContext(t.Context(), statement, args...))(t)
}

// work runs a Worker and a listener until the test ends.
func (w *woken) work(t *testing.T) {
	t.Helper()
	wake := make(chan struct{}, 1)
	worker := &retrytable.Worker[int64]{
		Table: w.table, DB: w.db, Concurrency: 4, Poll: time.Hour, Wake: wake,
		Work: func(_ context.Context, job *retrytable.Job[int64]) error { w.done <- job.ID; return nil },
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- worker.Run(ctx) }()
	go func() {
		ended <- retrypgx.Listen(ctx, &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Millisecond)}, retrypgx.Listener{
			Connect:  func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, dsn()) },
			Channels: []string{w.table.Notify}, Wake: wake,
			Listening: func(_ context.Context, conn *pgx.Conn) error { w.pids <- conn.PgConn().PID(); return nil },
		})
	}()
	t.Cleanup(func() {
		stop()
		for range cap(ended) {
			assert.ErrorIs(t, <-ended, context.Canceled)
		}
	})
}

// Jobs begin when they are committed, one by one and many at once, and those that were committed while
// nobody listened.
func TestWake(t *testing.T) {
	t.Parallel()
	w := openWoken(t)
	w.work(t)
	pid := <-w.pids
	insert := "INSERT INTO " + w.table.Name + " (id) VALUES ($1)"
	for id := range int64(300) {
		w.exec(t, insert, id)
		if id < 5 { // alone
			assert.Equal(t, id, <-w.done)
		}
	}
	for range 295 {
		<-w.done
	}
	killAll(t, pid)
	w.exec(t, insert, 300)
	assert.Equal(t, int64(300), <-w.done)
	<-w.pids
	w.exec(t, insert, 301)
	assert.Equal(t, int64(301), <-w.done)
}

// The trigger notifies once for a statement, and only if a row is due, and is still while a listener
// looks for jobs all the time.
func TestWakeTrigger(t *testing.T) {
	t.Parallel()
	w := openWoken(t)
	conn := testkit.Must(pgx.Connect(t.Context(), dsn()))(t)
	defer func() { assert.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	testkit.Must(conn.Exec(t.Context(), "LISTEN "+pgx.Identifier{w.table.Notify}.Sanitize()))(t)
	lock := "SELECT pg_advisory_%s(hashtext('retrytable.Notify'), hashtext($1))"
	notified := func(insert string) (n int) {
		w.exec(t, "INSERT INTO "+w.table.Name+insert)
		w.exec(t, "SELECT pg_notify($1, 'end')", w.table.Notify)
		for {
			notification := testkit.Must(conn.WaitForNotification(t.Context()))(t)
			if notification.Payload == "end" {
				return n
			}
			n++
		}
	}
	assert.Equal(t, 1, notified(" (id) SELECT generate_series(1, 1000)"))
	assert.Equal(t, 0, notified(" (id, due_at) VALUES (2000, now() + interval '1 hour')"))
	assert.Equal(t, 0, notified(" (id, status) VALUES (2001, 'done')"))
	assert.Equal(t, 1, notified(" (id, due_at) VALUES (2002, NULL)"))
	testkit.Must(conn.Exec(t.Context(), fmt.Sprintf(lock, "lock"), w.table.Notify))(t)
	assert.Equal(t, 0, notified(" (id) VALUES (3000)"))
	testkit.Must(conn.Exec(t.Context(), fmt.Sprintf(lock, "unlock"), w.table.Notify))(t)
	assert.Equal(t, 1, notified(" (id) VALUES (3001)"))
}

// Notifications that have come while the listener looks for jobs all the time need no such time
// each: it is still soon after the last one.
func TestWakeForgetsWhatHasCome(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "PostgreSQL")
	channel := fmt.Sprintf("retrypgx_%x", rand.Uint64())
	listening, heard, wake := make(chan struct{}), make(chan string, 1000), make(chan struct{}, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- retrypgx.Listen(ctx, nil, retrypgx.Listener{
			Connect:   func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, dsn()) },
			Channels:  []string{channel},
			Wake:      wake,
			Listening: func(context.Context, *pgx.Conn) error { close(listening); return nil },
			Notified:  func(_ context.Context, n *pgconn.Notification) error { heard <- n.Payload; return nil },
		})
	}()
	<-listening
	conn := testkit.Must(pgx.Connect(t.Context(), dsn()))(t)
	defer func() { assert.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	testkit.Must(conn.Exec(t.Context(), "SELECT pg_notify($1, n::text) FROM generate_series(1, 1000) n", channel))(t)
	began := time.Now()
	for n := range 1000 {
		assert.Equal(t, strconv.Itoa(n+1), <-heard)
	}
	assert.Less(t, time.Since(began), 10*time.Second, "20 ms each are 20 s, and 160 ms each are 160 s")
	stop()
	assert.ErrorIs(t, <-ended, context.Canceled)
}
