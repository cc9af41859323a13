package tabletest_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// oldJobs is the Table that works while it becomes that of migrated.
func oldJobs(k kind) *retrytable.Table[int64] {
	return &retrytable.Table[int64]{Dialect: k.dialect, Name: "jobs", Instants: k.instants}
}

func migrated(k kind) *retrytable.Table[int64] {
	table := jobs()
	table.Dialect, table.Instants, table.OrderBy = k.dialect, k.instants, "id"
	return table
}

// migrates makes migrations until it is killed.
func migrates(ctx context.Context, k kind, dsn string) error {
	db, err := sql.Open(k.driver, dsn)
	if err != nil {
		return err
	}
	if k.dialect == retrytable.SQLite {
		db.SetMaxOpenConns(1)
	}
	for err == nil {
		err = migrated(k).Migrate(ctx, db, retrytable.Migration[int64]{})
	}
	return err
}

// A migration is killed at random while the rows are worked on. The next one goes on, and no job is lost
// or done twice. RETRY_TEST_MIGRATIONS says how many are killed on each database.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("RETRY_TEST_MIGRATIONS"), "3"))
	require.NoError(t, err)
	for n, k := range kinds {
		if k != databases[0] && k != databases[2] && k != databases[3] {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.open(t)
			early, complete := 0, 0
			for range kills {
				if s.killMigration(t, n) {
					complete++
				} else {
					early++
				}
			}
			t.Logf("%d killed before the end of their migration, %d after it", early, complete)
		})
	}
}

// killMigration kills one, and reports whether it had done its work.
func (s *store) killMigration(t *testing.T, n int) (complete bool) {
	t.Helper()
	const rows = 150
	s.live(t, "", 0)
	run(t, s.db, oldJobs(s.kind).Schema())
	for id := range rows {
		run(t, s.db, "INSERT INTO jobs (id) VALUES ($1)", id)
	}
	var mu sync.Mutex
	ran := map[int64]int{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := &retrytable.Worker[int64]{
		Table: oldJobs(s.kind), DB: s.again(t), Concurrency: 2, Poll: 5 * time.Millisecond,
		Work: func(_ context.Context, job *retrytable.Job[int64]) error {
			mu.Lock()
			defer mu.Unlock()
			ran[job.ID]++
			return nil
		},
		OnError: func(_ context.Context, err error) { t.Log(err) },
	}
	go func() { ended <- w.Run(ctx) }()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), workerKind+"="+strconv.Itoa(n), workerDSN+"="+s.dsn, workerLoop+"=Migrate")
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	time.Sleep(rand.N(300 * time.Millisecond))
	require.NoError(t, cmd.Process.Kill())
	assert.ErrorContains(t, cmd.Wait(), "killed")
	_ = stdin.Close()
	var all told
	require.NoError(t, migrated(s.kind).Migrate(t.Context(), s.db, retrytable.Migration[int64]{Tell: all.tell}))
	after, err := migrated(s.kind).Missing(t.Context(), s.db)
	require.NoError(t, err)
	assert.Empty(t, after)
	assert.Eventually(t, func() bool { return count(t, s.db, "SELECT count(*) FROM jobs WHERE status <> 'done'") == 0 }, time.Minute, 20*time.Millisecond)
	stop()
	assert.ErrorIs(t, <-ended, context.Canceled)
	assert.Len(t, ran, rows)
	for id, times := range ran {
		assert.Equal(t, 1, times, fmt.Sprint("job ", id))
	}
	run(t, s.db, "DROP TABLE jobs")
	return len(all.statements) == 0
}
