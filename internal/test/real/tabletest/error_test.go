//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// why is what is stored of the last failure of a job.
func (s *store) why(t testing.TB, id int64) any {
	t.Helper()
	return query(t, s.db, "SELECT error FROM jobs WHERE id = $1", id)[0][0]
}

// texts are of errors, and what is stored of them in any database.
var texts = []struct{ failure, stored string }{
	{"mailbox busy", "mailbox busy"},
	{`it's "quoted" \ {a,b} NULL $1 ?`, `it's "quoted" \ {a,b} NULL $1 ?`},
	{"", ""},
	{"NULL", "NULL"},
	{"\x00a\xff\x1b[31m", "a\uFFFD[31m"},
	{"日本語 😀\n\tline", "日本語 😀\n\tline"},
	{"dial postgres://u:s3cret@h/db?password=s3cret", "dial postgres://h/db?password=***"},
	{strings.Repeat("😀", 512), strings.Repeat("😀", 512)},
}

// The text of the last failure is in the row, whichever way the outcome was stored, and
// whatever the text is. A success removes it.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	const n = 3 * 8
	for _, way := range []string{"in groups", "alone", "with args"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			forEach(t, kinds, func(t *testing.T, s *store) {
				table := jobs()
				if way == "with args" {
					table.Set = retrytable.Set{Succeed: "note = $1", Fail: "note = $1"}
				}
				c := newCrew(t, s, table, n)
				c.end = func(job *retrytable.Job[int64]) error {
					if job.ID%3 == 0 {
						return nil
					}
					err := errors.New(texts[job.ID/3].failure)
					if job.ID%3 == 1 {
						return retry.MarkFinal(err)
					}
					return err
				}
				switch way {
				case "alone":
					c.InTx = func(context.Context, *sql.Tx, *retrytable.Outcome[int64]) error { return nil }
				case "with args":
					c.FinishArgs = func(o *retrytable.Outcome[int64]) []any { return []any{fmt.Sprint(o.Job.ID)} }
				}
				run(t, s.db, "UPDATE jobs SET error = 'before'")
				testkit.Must(c.Once(t.Context()))(t)
				for id := int64(1); id <= n; id++ {
					if id%3 == 0 {
						assert.Nil(t, s.why(t, id), "a success")
					} else {
						assert.Equal(t, texts[id/3].stored, s.why(t, id), "job %d", id)
					}
				}
			})
		})
	}
}

// Lost attempts say so, and so do jobs that are not begun any more.
func TestErrorTextsWithoutWork(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		s.create(t, jobs(), 0)
		table := s.jobs()
		for id, attempts := range []int{1, 3, 3} {
			run(t, s.db, "INSERT INTO jobs (id, attempts, error) VALUES ($1, $2, 'before')", id, attempts)
			if id < 2 {
				run(t, s.db, "UPDATE jobs SET status = 'running', due_at = NULL WHERE id = $1", id)
				s.ago(t, s.db, "lease_until", int64(id), 1<<40)
			}
		}
		w := &retrytable.Worker[int64]{
			Table: table, DB: s.db, Policy: &retry.Policy{Name: "mail", Backoff: retry.Constant(1 << 40)}, Concurrency: 9,
			Work: func(context.Context, *retrytable.Job[int64]) error { return nil }, OnError: func(context.Context, error) {},
		}
		testkit.Must(w.Once(t.Context()))(t)
		assert.Equal(t, []any{"waiting", retry.ErrLost.Error()}, query(t, s.db, "SELECT status, error FROM jobs WHERE id = 0")[0])
		assert.Equal(t, []any{"dead", retry.ErrLost.Error()}, query(t, s.db, "SELECT status, error FROM jobs WHERE id = 1")[0])
		assert.Equal(t, []any{"dead", "mail failed after 3 attempts", int64(3)},
			query(t, s.db, "SELECT status, error, attempts FROM jobs WHERE id = 2")[0], "the claim does not count")
	})
}

// A text that the database refuses does not keep an outcome from being stored, in a group,
// alone or by a sweep.
func TestErrorTextsRefused(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		for name, want := range map[string]any{"length(coalesce(error, '')) <= 100": "?" + strings.Repeat("x", 99), "error IS NULL": nil} {
			const n = 6
			c := newCrew(t, s, jobs(), n)
			if s.dialect == retrytable.SQLite {
				run(t, s.db, "CREATE TRIGGER no BEFORE UPDATE ON jobs WHEN NOT ("+strings.ReplaceAll(name, "error", "new.error")+
					") BEGIN SELECT RAISE(ABORT, 'no'); END")
			} else {
				run(t, s.db, "ALTER TABLE jobs ADD CONSTRAINT no CHECK ("+name+")")
			}
			meet, failure := meeting(n-1), errors.New("é"+strings.Repeat("x", 500))
			c.Lost = failure
			c.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
				meet()
				return failure
			}
			run(t, s.db, "UPDATE jobs SET status = 'running', due_at = NULL WHERE id = 1")
			s.ago(t, s.db, "lease_until", 1, 1<<40)
			testkit.Must(c.Once(t.Context()))(t)
			for id := range int64(n) {
				assert.Equal(t, "waiting", s.record(t, s.db, id+1).status)
				assert.Equal(t, want, s.why(t, id+1))
			}
			run(t, s.db, "DROP TABLE jobs")
		}
	})
}

// A column that cannot hold every text is reported, with the statement that mends it where
// there is one.
func TestErrorTextsCheck(t *testing.T) {
	t.Parallel()
	forEachTable(t, databases, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		if s.dialect == retrytable.MySQL { // whatever the server's own is
			run(t, s.db, "ALTER TABLE jobs DEFAULT CHARACTER SET utf8mb4")
		}
		const mend = `ALTER TABLE "jobs" ALTER COLUMN "error" TYPE text`
		for column, want := range map[retrytable.Dialect]map[string]string{
			retrytable.PostgreSQL: {
				"text": "", "varchar": "", "varchar(2048)": "",
				"varchar(2047)": "has room for 2047 characters, and texts have up to 2048; run: " + mend,
				"text NOT NULL": "must allow NULL", "jsonb": "is jsonb, and must be text", "bigint": "is bigint, and must be text",
			},
			retrytable.MySQL: {
				"text": "", "longtext": "", "varchar(2048)": "",
				"varchar(255)":              "has room for 255 characters, and texts have up to 2048",
				"tinytext":                  "is tinytext utf8mb4, and must be text CHARACTER SET utf8mb4",
				"text CHARACTER SET latin1": "is text latin1, and must be text CHARACTER SET utf8mb4",
				"text NOT NULL":             "must allow NULL",
			},
			retrytable.SQLite: {"text": "", "VARCHAR(9)": "", "": "", "integer": "is INTEGER, and must be TEXT", "text NOT NULL DEFAULT ''": "must allow NULL"},
		}[s.dialect] {
			run(t, s.db, "ALTER TABLE jobs DROP COLUMN error")
			run(t, s.db, "ALTER TABLE jobs ADD COLUMN error "+column+strings.Repeat(" DEFAULT ''", strings.Count(column, "NOT NULL")*(1-strings.Count(column, "DEFAULT"))))
			err := table.Check(t.Context(), s.db)
			if want == "" {
				assert.NoError(t, err, column)
				continue
			}
			require.ErrorIs(t, err, retrytable.ErrTable, column)
			assert.Equal(t, "retrytable: the table does not fit:\nretrytable: Columns.Error: \"error\": "+want, err.Error())
			if strings.Contains(want, mend) {
				missing(t, s, table)
				assert.NoError(t, table.Check(t.Context(), s.db))
			}
		}
		run(t, s.db, "ALTER TABLE jobs DROP COLUMN error")
		assert.Contains(t, missing(t, s, table)[0], "ADD COLUMN")
	})
}

// A job that has failed for good is logged, if nobody else is told; see TestWorkerLogs.
func TestEndIsLogged(t *testing.T) { //nolint:paralleltest // the logger of all
	before := slog.Default()
	defer slog.SetDefault(before)
	s := databases[2].open(t)
	table := jobsOfKinds()
	s.create(t, table, 0)
	for name, test := range map[string]struct {
		spoil func(w *retrytable.Worker[int64])
		lines int
	}{
		"nobody is told": {func(*retrytable.Worker[int64]) {}, 1},
		"OnError":        {func(w *retrytable.Worker[int64]) { w.OnError = func(context.Context, error) {} }, 0},
		"Observer": {func(w *retrytable.Worker[int64]) {
			w.Policy.Observer = &retry.Observer{Event: func(context.Context, retry.Event) {}}
		}, 0},
	} {
		var out bytes.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
		run(t, s.db, "DELETE FROM jobs")
		run(t, s.db, "INSERT INTO jobs (id, sort) VALUES (1, 'mail'), (2, 'mail')")
		w := &retrytable.Worker[int64]{
			Table: table, DB: s.db, Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)},
			Work: func(_ context.Context, job *retrytable.Job[int64]) error {
				if job.ID == 2 {
					return nil
				}
				return errors.New("GET http://h/?key=s3cret: busy\nor\x1b so")
			},
		}
		test.spoil(w)
		for range 4 {
			testkit.Must(w.Once(t.Context()))(t)
		}
		require.Equal(t, test.lines, strings.Count(out.String(), "\n"), name+out.String())
		if test.lines > 0 {
			assert.Equal(t, `level=ERROR msg="retrytable job has failed" table=jobs id=1 kind=mail attempts=2 reason=attempts `+
				`error="GET http://h/?key=*** busy\nor so"`+"\n", out.String())
		}
	}
}
