package retryriver_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/adapters/retryriver"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, &enginetest.Engine{
		Open: enginekit.Opens(open), Grain: 10 * time.Second, Recovery: 20 * time.Second, Repeat: repeat, InPlace: true,
		OpenTwo: openTwo,
		Cannot: map[string]enginetest.Instead{
			"context ignored for ever": {Why: "River rescues a job after RescueStuckJobsAfter", Endless: true},
			"success not stored":       {Why: "River stores the outcome after Work", Told: []string{"1: succeeded", "2: succeeded"}},
		},
	})
}

func TestMain(m *testing.M) { testkit.AtOnce(m, 10) }

// TestCrash kills worker processes at random moments.
func TestCrash(t *testing.T) {
	t.Parallel()
	crash := &enginetest.Crash{
		Open: func(t testing.TB) (enginetest.Queue, string) {
			t.Helper()
			q := open(t)
			return q, q.schema
		},
		Attach: func(t testing.TB, schema string) enginetest.Queue {
			t.Helper()
			q := attach(t, schema)
			q.worker = river.Config{
				ID: strconv.Itoa(os.Getpid()), TestOnly: true, // which starts maintenance at once
				Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
			}
			return q
		},
		Died: died,
	}
	crash.Run(t)
}

// died has the time of the jobs of dead processes run out, for which others would wait an
// hour, the next process be the leader, which rescues them, and what is due run.
func died(q enginetest.Queue, pids []int, _ []string) error {
	var clients []string
	for _, pid := range pids {
		clients = append(clients, strconv.Itoa(pid))
	}
	pool := q.(*queue).pool
	ctx := context.Background()
	_, err := pool.Exec(ctx, "UPDATE river_job SET attempted_at = attempted_at - INTERVAL '2 hours' "+
		"WHERE state = 'running' AND attempted_by[array_upper(attempted_by, 1)] = ANY($1)", clients)
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "DELETE FROM river_leader"); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "UPDATE river_job SET state = 'available' WHERE state = 'retryable' AND scheduled_at <= now()")
	return err
}

// TestOutage has workers lose the database again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := &enginetest.Outage{
		Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
			t.Helper()
			q := open(t)
			q.cable = cable
			q.worker = river.Config{TestOnly: true} // which starts maintenance at once
			return q
		},
		Again: true,                                                         // River stores an outcome again that it could not store at once
		Lost:  func(q enginetest.Queue) error { return rescue(q.(*queue)) }, //nolint:forcetypeassert // see Open
	}
	outage.Run(t)
}

// rescue has jobs be stuck that have run for longer than River tries to store an outcome,
// and the next client be the leader, which rescues them.
func rescue(q *queue) error {
	ctx := context.Background()
	_, err := q.pool.Exec(ctx, "UPDATE river_job SET attempted_at = attempted_at - INTERVAL '2 hours' "+
		"WHERE state = 'running' AND attempted_at < now() - $1::interval", 20*time.Second)
	if err != nil {
		return err
	}
	_, err = q.pool.Exec(ctx, "DELETE FROM river_leader")
	return err
}

// connect returns connections to the server, which fail when the cable is cut.
func connect(t testing.TB, cable *enginetest.Cable, schema string) *pgxpool.Pool {
	t.Helper()
	testkit.Needs(t, "PostgreSQL")
	config := testkit.Must(pgxpool.ParseConfig(
		cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")))(t)
	config.ConnConfig.DialFunc = cable.DialContext
	config.ConnConfig.RuntimeParams["search_path"] = schema
	config.MaxConns = 6
	pool := testkit.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	require.NoError(t, pool.Ping(t.Context()), "PostgreSQL does not answer")
	return pool
}

// queue is a schema with River's tables.
type queue struct {
	t      testing.TB
	schema string
	pool   *pgxpool.Pool
	ids    map[string]int64
	worker river.Config      // where it is not the usual one
	cable  *enginetest.Cable // of all workers, which connect again when it is lost
	name   string            // empty means River's default
	shared *pgxpool.Pool     // of all workers
}

func attach(t testing.TB, schema string) *queue {
	t.Helper()
	return &queue{t: t, schema: schema, pool: connect(t, &enginetest.Cable{}, schema), ids: map[string]int64{}}
}

func open(t testing.TB) *queue {
	t.Helper()
	schema := "river_" + strings.ToLower(rand.Text()[:10])
	q := attach(t, schema)
	testkit.Must(q.pool.Exec(t.Context(), "CREATE SCHEMA "+schema))(t)
	t.Cleanup(func() {
		_, err := q.pool.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE")
		assert.NoError(t, err)
	})
	migrator := testkit.Must(rivermigrate.New(riverpgxv5.New(q.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)}))(t)
	testkit.Must(migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil))(t)
	return q
}

// openTwo opens two queues whose workers have one pool. The first one's outcomes cannot be
// stored for a while. Each has a client: one that has both stores the outcomes of both in one
// statement.
func openTwo(t testing.TB) (q enginetest.Queue, spoil func() (mend func() error, err error)) {
	t.Helper()
	bad := open(t)
	good := attach(t, bad.schema)
	bad.name, good.name = "bad", "good"
	bad.shared = connect(t, &enginetest.Cable{}, bad.schema)
	good.shared = bad.shared
	exec := func(statement string) error {
		_, err := bad.pool.Exec(context.Background(), statement)
		return err
	}
	return enginetest.Both(bad, good), func() (func() error, error) {
		return func() error { return exec("DROP FUNCTION refuse CASCADE") }, exec(`
			CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = 'insufficient_privilege'; END $$;
			CREATE TRIGGER refuse BEFORE UPDATE ON river_job FOR EACH ROW
				WHEN (OLD.queue = 'bad' AND OLD.state = 'running') EXECUTE FUNCTION refuse()`)
	}
}

type pgxTx = pgx.Tx

type args struct {
	Job  string
	kind string
}

// Kind implements [river.JobArgs].
func (a args) Kind() string { return a.kind }

func (q *queue) client(pool *pgxpool.Pool, p enginetest.Policies, config *river.Config) (*river.Client[pgxTx], error) {
	config.Logger = slog.New(slog.DiscardHandler)
	if err := (&retryriver.Retries{Policy: p.Policy, PolicyFor: p.PolicyFor}).Configure(config); err != nil {
		return nil, err
	}
	return river.NewClient(riverpgxv5.New(pool), config)
}

func (q *queue) Submit(ctx context.Context, kind, job string) error {
	client, err := q.client(q.pool, enginetest.Policies{}, &river.Config{})
	if err != nil {
		return err
	}
	inserted, err := client.Insert(ctx, args{job, kind}, &river.InsertOpts{MaxAttempts: 1, Queue: q.name})
	if err != nil {
		return err
	}
	q.ids[job] = inserted.Job.ID
	return nil
}

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	w := &workers{queue: q, cable: cmp.Or(q.cable, &enginetest.Cable{})}
	all := river.NewWorkers()
	work := river.WorkFunc(func(ctx context.Context, job *river.Job[args]) error { return handle(ctx, job.Args.Job) })
	for _, kind := range []string{"kind-1", "kind-2", "kind-3"} {
		river.AddWorkerArgs(all, args{kind: kind}, work)
	}
	config := q.worker
	config.FetchCooldown, config.FetchPollInterval = 5*time.Millisecond, 20*time.Millisecond
	if config.Workers = all; config.Queues == nil {
		config.Queues = map[string]river.QueueConfig{cmp.Or(q.name, river.QueueDefault): {MaxWorkers: 10}}
	}
	pool := q.shared
	if pool == nil {
		pool = connect(q.t, w.cable, q.schema)
	}
	var err error
	w.client, err = q.client(pool, p, &config)
	if err != nil {
		return nil, err
	}
	return w, w.client.Start(context.Background())
}

func (q *queue) Outcome(ctx context.Context, job string) (enginetest.Outcome, error) {
	client, err := q.client(q.pool, enginetest.Policies{}, &river.Config{})
	if err != nil {
		return enginetest.Outcome{}, err
	}
	row, err := client.JobGet(ctx, q.ids[job])
	if err != nil {
		return enginetest.Outcome{}, err
	}
	switch row.State {
	case rivertype.JobStateCompleted:
		return enginetest.Outcome{Status: enginetest.Succeeded}, nil
	case rivertype.JobStateCancelled, rivertype.JobStateDiscarded:
		return enginetest.Outcome{Status: enginetest.GaveUp, Err: row.Errors[len(row.Errors)-1].Error}, nil
	default:
		return enginetest.Outcome{}, nil
	}
}

type workers struct {
	queue  *queue
	cable  *enginetest.Cable
	client *river.Client[pgxTx]
}

func (w *workers) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return w.client.StopAndCancel(ctx)
}

// Kill has the leader's and the jobs' time run out, for which others would wait an hour.
func (w *workers) Kill() error {
	w.cable.Cut()
	for _, statement := range []string{
		"DELETE FROM river_leader",
		"UPDATE river_job SET attempted_at = attempted_at - INTERVAL '2 hours' WHERE state = 'running'",
	} {
		if _, err := w.queue.pool.Exec(context.Background(), statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// repeat does what the leader does that rescues a job, and spares the job the wait.
func repeat(ctx context.Context, q enginetest.Queue, job string) error {
	own := q.(*queue) //nolint:forcetypeassert // see TestConformance
	_, err := own.pool.Exec(ctx, `UPDATE river_job SET state = 'available', scheduled_at = now(),
		metadata = metadata || jsonb_build_object('river:rescue_count', COALESCE((metadata->>'river:rescue_count')::int, 0) + 1),
		errors = array_append(errors, jsonb_build_object('attempt', attempt, 'at', now(), 'error', 'rescued', 'trace', ''))
		WHERE id = $1 AND state = 'running'`, own.ids[job])
	return err
}
