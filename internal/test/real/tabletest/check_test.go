//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// What Schema makes is what Check wants, and so is a table of one's own that is full of
// smaller types.
func TestCheck(t *testing.T) {
	t.Parallel()
	forEachTable(t, kinds, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		require.NoError(t, table.Check(t.Context(), s.db))

		old := &retrytable.Table[string]{Name: "old", Dialect: s.dialect, Instants: s.instants, Columns: retrytable.Columns{ID: "Key"}}
		instant := s.instants.SQLType(s.dialect)
		key := `"Key"`
		if s.dialect == retrytable.MySQL {
			key = "`Key`"
		}
		run(t, s.db, "CREATE TABLE old ("+key+" varchar(9) NOT NULL UNIQUE, status varchar(20), attempts smallint, fence integer, "+
			"due_at "+instant+", lease_until "+instant+")")
		if s.dialect == retrytable.MySQL {
			run(t, s.db, s.indexes(old.Schema()))
		}
		require.NoError(t, old.Check(t.Context(), s.db))
	})
}

// All faults are reported at once.
func TestCheckFaults(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := s.jobs()
		err := table.Check(t.Context(), s.db)
		assert.ErrorIs(t, err, retrytable.ErrTable)
		assert.EqualError(t, err, "retrytable: the table does not fit:\nretrytable: Name: \"jobs\": there is no such table")

		run(t, s.db, "CREATE TABLE jobs (id bigint, status integer, attempts text, due_at text, lease_until text NOT NULL, first_at timestamp)")
		err = table.Check(t.Context(), s.db)
		require.ErrorIs(t, err, retrytable.ErrTable)
		faults := strings.Split(err.Error(), "\n")[1:]
		for i := range faults {
			problem, mend, _ := strings.Cut(strings.TrimPrefix(faults[i], "retrytable: "), "; run: ")
			faults[i] = strings.Replace(problem, "is TEXT", "is text", 1) // SQLite's types are as they were written
			assert.Equal(t, strings.Contains(problem, " no ") || strings.Contains(problem, "timestamp without"), mend != "", "a statement mends what can be: %s", problem)
		}
		is := map[retrytable.Dialect]struct{ status, instant, first string }{
			retrytable.PostgreSQL: {
				"is integer, and must be text or an enum",
				`is text, but Instants wants timestamp with time zone; to convert it: ` +
					`ALTER TABLE "jobs" ALTER COLUMN "?" TYPE timestamptz USING "?"::timestamptz`,
				"is timestamp without time zone, but Instants wants timestamp with time zone",
			},
			retrytable.MySQL: {
				"is int(11), and must be text or an enum",
				"is text, but Instants wants datetime(6); to convert it: ALTER TABLE `jobs` MODIFY COLUMN `?` datetime(6)",
				"is timestamp, but Instants wants datetime(6); to convert it: SET time_zone = '+00:00'; " +
					"ALTER TABLE `jobs` MODIFY COLUMN `first_at` datetime(6)",
			},
			retrytable.SQLite: {
				"",
				"is text, and must be INTEGER, or Instants must be RFC3339",
				"is timestamp, and must be INTEGER, or Instants must be RFC3339",
			},
		}[s.dialect]
		want := []string{
			`Columns.ID: "id": must be unique, by a primary key or an index of its own`,
			`Columns.Status: "status": ` + is.status,
			`Columns.Attempts: "attempts": is text, and must be an integer`,
			`Columns.Due: "due_at": ` + strings.ReplaceAll(is.instant, "?", "due_at"),
			`Columns.Lease: "lease_until": ` + strings.ReplaceAll(is.instant, "?", "lease_until"),
			`Columns.Lease: "lease_until": must allow NULL`,
			`Columns.Fence: "fence": there is no such column`,
			`Columns.RateLimited: "limited": there is no such column`,
			`Columns.Pending: "polls": there is no such column`,
			`Columns.First: "first_at": ` + is.first,
			`Columns.Error: "error": there is no such column`,
		}
		switch s.dialect {
		case retrytable.SQLite: // any column takes text
			want = slices.Delete(want, 1, 2)
		case retrytable.MySQL:
			for _, name := range []string{"claim_602cb9cf", "sweep_3aab1c53"} {
				want = append(want, `Name: "jobs": has no column `+name, `Name: "jobs": has no index `+name)
			}
		}
		assert.Equal(t, want, faults)
	})
}

// Part of a key is not unique, nor is a part of the rows.
func TestCheckUnique(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		for i, test := range []struct {
			create string
			fine   bool
		}{
			{"(id bigint PRIMARY KEY)", true},
			{"(id bigint, kind text, PRIMARY KEY (id, kind))", false},
			{"(id bigint, kind text, PRIMARY KEY (id, kind), UNIQUE (id))", true},
			{"(id bigint, kind text UNIQUE)", false},
			{"(id bigint); CREATE UNIQUE INDEX part ON x1 (id) WHERE id > 5", false},
			{"(id bigint); CREATE UNIQUE INDEX whole ON x1 (id)", true},
		} {
			table := &retrytable.Table[int64]{Name: "x1", Dialect: s.dialect, Instants: s.instants}
			create := test.create
			if s.dialect == retrytable.MySQL { // in which an index is of all rows, or of a part of a text
				create = strings.NewReplacer("kind text", "kind varchar(9)", " WHERE id > 5", "",
					"(id bigint); CREATE UNIQUE INDEX part ON x1 (id)", "(id varchar(9)); CREATE UNIQUE INDEX part ON x1 (id(5))").Replace(create)
			}
			for statement := range strings.SplitSeq("CREATE TABLE x1 "+create, "; ") {
				run(t, s.db, statement)
			}
			run(t, s.db, table.Schema())
			err := table.Check(t.Context(), s.db)
			if test.fine {
				assert.NoError(t, err, i)
			} else {
				assert.ErrorContains(t, err, "must be unique", i)
			}
			run(t, s.db, "DROP TABLE x1")
		}
	})
}

// In PostgreSQL a role may see a table and not change it, and an enum may lack a word.
func TestCheckPostgres(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.PostgreSQL), func(t *testing.T, s *store) {
		table := jobsOfKinds() // a kind is only read
		s.create(t, table, 1)
		role := "retry_" + strings.ToLower(rand.Text()[:16])
		u := testkit.Must(url.Parse(s.dsn))(t)
		schema := u.Query().Get("search_path")
		run(t, s.db, "CREATE ROLE "+role)
		testkit.AtEnd(t, s.db, "DROP ROLE "+role)
		testkit.AtEnd(t, s.db, "DROP OWNED BY "+role) // before that
		run(t, s.db, "GRANT USAGE ON SCHEMA "+schema+" TO "+role)
		run(t, s.db, "GRANT SELECT ON jobs TO "+role)
		run(t, s.db, "GRANT UPDATE (status, attempts, due_at, lease_until, limited, polls, first_at, error) ON jobs TO "+role)
		tx := testkit.Must(s.db.BeginTx(t.Context(), nil))(t)
		run(t, tx, "SET LOCAL ROLE "+role)
		err := table.Check(t.Context(), tx)
		require.NoError(t, tx.Rollback())
		assert.EqualError(t, err, "retrytable: the table does not fit:\nretrytable: Columns.Fence: \"fence\": no privilege to UPDATE it")

		conn := testkit.Must(s.db.Conn(t.Context()))(t)
		run(t, conn, "SET ROLE "+role)
		_, err = table.End(t.Context(), conn, retrytable.Jobs[int64]{All: true}, retrytable.Ending{})
		assert.ErrorIs(t, err, retrytable.ErrTable, "an operation says it too")
		assert.ErrorContains(t, err, "no privilege to UPDATE it")
		run(t, conn, "RESET ROLE")
		require.NoError(t, conn.Close())

		run(t, s.db, "CREATE TYPE word AS ENUM ('ready', 'running', 'done')")
		run(t, s.db, "CREATE TABLE other (id bigint PRIMARY KEY, status word)")
		other := &retrytable.Table[int64]{Name: schema + ".other", Dialect: s.dialect, Instants: s.instants}
		columns, _, _ := strings.Cut(other.Schema(), "CREATE INDEX")
		run(t, s.db, columns)
		assert.EqualError(t, other.Check(t.Context(), s.db), "retrytable: the table does not fit:\n"+
			`retrytable: Columns.Status: "status": the type word has no ["waiting" "dead"]; `+
			"run: ALTER TYPE word ADD VALUE IF NOT EXISTS 'waiting'; ALTER TYPE word ADD VALUE IF NOT EXISTS 'dead'")
	})
}

// In MySQL too, and there are engines that lock no rows, and collations that know no
// capitals.
func TestCheckMySQL(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.MySQL), func(t *testing.T, s *store) {
		const says = "retrytable: the table does not fit:\n"
		table := jobsOfKinds() // a kind is only read
		s.create(t, table, 1)
		user := "retry_" + strings.ToLower(rand.Text()[:16])
		run(t, s.db, "CREATE USER "+user)
		testkit.AtEnd(t, s.db, "DROP USER "+user)
		run(t, s.db, "GRANT SELECT, UPDATE (status, attempts, due_at, lease_until, limited, polls, first_at, error) ON jobs TO "+user)
		config := testkit.Must(mysql.ParseDSN(s.dsn))(t)
		config.User, config.Passwd = user, ""
		assert.EqualError(t, table.Check(t.Context(), openDB(t, s.driver, config.FormatDSN())),
			says+"retrytable: Columns.Fence: \"fence\": no privilege to UPDATE it")

		run(t, s.db, "CREATE TABLE words (id bigint PRIMARY KEY, status ENUM ('ready', 'running', 'it''s done'))")
		words := &retrytable.Table[int64]{Name: config.DBName + ".words", Dialect: s.dialect, Statuses: retrytable.Statuses{Done: []string{"it's done"}}}
		run(t, s.db, strings.Replace(words.Schema(), "ADD COLUMN `status` varchar(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'ready',", "", 1))
		assert.ErrorContains(t, words.Check(t.Context(), s.db), says+
			"retrytable: Columns.Status: \"status\": the type enum('ready','running','it''s done') has no [\"waiting\" \"dead\"]; run: ALTER TABLE ")

		run(t, s.db, "CREATE TABLE plain (id bigint PRIMARY KEY) ENGINE = MyISAM")
		plain := &retrytable.Table[int64]{Name: "plain", Dialect: s.dialect, Statuses: retrytable.Statuses{Dead: "DONE"}}
		run(t, s.db, plain.Schema())
		assert.EqualError(t, plain.Check(t.Context(), s.db), says+
			"retrytable: Columns.Status: \"status\": has a collation to which \"done\" is \"DONE\"\n"+
			"retrytable: Name: \"plain\": is of the engine MyISAM, and must be InnoDB: others do not lock rows")

		run(t, s.db, "ALTER TABLE jobs DROP INDEX sweep_3aab1c53")
		assert.EqualError(t, table.Check(t.Context(), s.db), says+
			"retrytable: Name: \"jobs\": has no index sweep_3aab1c53; run: ALTER TABLE `jobs` ADD INDEX sweep_3aab1c53 (sweep_3aab1c53)")
		table = jobs()
		table.Where, table.Dialect = "kind = 'a'", s.dialect
		assert.ErrorContains(t, table.Check(t.Context(), s.db), "has no column claim_", "that of another condition")
	})
}

// A failure of the database is not taken for a fault of the table.
func TestCheckFails(t *testing.T) {
	t.Parallel()
	forEachTable(t, databases, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		err := table.Check(testkit.Canceled(t.Context()), s.db)
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, retrytable.ErrTable)
	})
}

// A Worker does not begin with a table that does not fit.
func TestWorkerRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, s *shop) {
		s.Work = func(context.Context, *retrytable.Job[int64]) error { return nil }
		run(t, s.db, "ALTER TABLE jobs DROP COLUMN polls")
		err := s.Run(t.Context())
		assert.ErrorIs(t, err, retrytable.ErrTable)
		assert.ErrorContains(t, err, `Columns.Pending: "polls": there is no such column`)
	})
}
