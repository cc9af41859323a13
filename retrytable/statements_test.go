package retrytable_test

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

var errDB = errors.New("no database")

// recorder keeps the last statement and has no database behind it.
type recorder struct {
	sql   string
	args  []any
	calls int
}

func (r *recorder) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	r.sql, r.args = query, args
	r.calls++
	return nil, errDB
}

func (r *recorder) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	_, err := r.ExecContext(context.Background(), query, args...)
	return nil, err
}

var (
	lease = retrytable.Lease[int64]{ID: 7, Fence: 3}
	again = retry.Decision{
		Retry: true, Delay: 1500*time.Millisecond + 1, Verdict: retry.Verdict{Category: "http_503"},
		State: retry.State{Failures: 2, RateLimited: 1, First: time.UnixMicro(5)},
	}
	over = retry.Decision{Stop: retry.StopAttempts, State: retry.State{Failures: 3}, Err: errDB}
)

var dialects = map[retrytable.Dialect]string{
	retrytable.PostgreSQL: "postgres", retrytable.SQLite: "sqlite", retrytable.MySQL: "mysql",
}

// methods calls every method of a Table, with args where it takes any.
var methods = []struct {
	name string
	call func(t *retrytable.Table[int64], db retrytable.DB, args ...any) error
}{
	{"claim", func(t *retrytable.Table[int64], db retrytable.DB, args ...any) error {
		_, err := t.Claim(context.Background(), db, 10, args...)
		return err
	}},
	{"sweep", func(t *retrytable.Table[int64], db retrytable.DB, args ...any) error {
		_, err := t.Sweep(context.Background(), db, 10, args...)
		return err
	}},
	{"promote", func(t *retrytable.Table[int64], db retrytable.DB, args ...any) error {
		_, err := t.Promote(context.Background(), db, 10, args...)
		return err
	}},
	{"succeed", func(t *retrytable.Table[int64], db retrytable.DB, args ...any) error {
		return t.Succeed(context.Background(), db, lease, args...)
	}},
	{"succeed as", func(t *retrytable.Table[int64], db retrytable.DB, args ...any) error {
		done := "done"
		if len(t.Statuses.Done) > 0 {
			done = t.Statuses.Done[1]
		}
		return t.SucceedAs(context.Background(), db, lease, done, args...)
	}},
	{"retry", func(t *retrytable.Table[int64], db retrytable.DB, args ...any) error {
		d := again
		if t.Columns.Pending != "" {
			d.State.Pending = 4
		}
		return t.Fail(context.Background(), db, lease, d, args...)
	}},
	{"end", func(t *retrytable.Table[int64], db retrytable.DB, args ...any) error {
		return t.Fail(context.Background(), db, lease, over, args...)
	}},
	{"extend", func(t *retrytable.Table[int64], db retrytable.DB, _ ...any) error {
		return t.Extend(context.Background(), db, lease, 90*time.Second)
	}},
	{"release", func(t *retrytable.Table[int64], db retrytable.DB, args ...any) error {
		return t.Release(context.Background(), db, lease, args...)
	}},
}

// full is a Table with a value in every field, and names that need quotes.
func full() *retrytable.Table[int64] {
	return &retrytable.Table[int64]{
		Name: `app.run"s`,
		Columns: retrytable.Columns{
			ID: "run id", Status: "select", Attempts: "retry_count", Due: "next_retry_at",
			Lease: "lease", Fence: `f"e`, RateLimited: "limited", Pending: "polls", First: "first", Kind: `so"rt`,
			Error: "why", Ended: "ended", Category: "sort of",
		},
		Statuses: retrytable.Statuses{
			Ready: "it's new", Waiting: "error", Running: []string{"claimed", "running"}, Done: []string{"passed $1", "failed"}, Dead: "error",
		},
		Instants: retrytable.UnixSeconds,
		Lease:    5 * time.Minute,
		Where:    "category = $1",
		OrderBy:  "submitted_date",

		NoPromote:      true,
		KeepAutovacuum: true,

		ClaimWhere: "busy < $3 OR urgent",
		Set: retrytable.Set{
			Claim: "worker = $2", Promote: "promoted = true", Succeed: "retry_count = 0",
			Fail: "error = $1", Retry: "hold_reason = NULL", End: "hold_reason = $1", Release: "worker = NULL",
		},
	}
}

// merge is a Table for rows that others count, and look at while they wait.
func merge() *retrytable.Table[int64] {
	return &retrytable.Table[int64]{
		Name:     "app.runs",
		Columns:  retrytable.Columns{Retries: "retry_count", Due: "next_retry_at", First: "first_at"},
		Statuses: retrytable.Statuses{Waiting: "error", Dead: "error"},
		OrderBy:  "submitted", Merge: true,
	}
}

// TestSQL compares all that is sent with a file of what was sent when somebody
// last read it. UPDATE=1 go test writes it anew.
func TestSQL(t *testing.T) {
	t.Parallel()
	zero, same := retrytable.Table[int64]{Name: "jobs"}, retrytable.Table[int64]{
		Name: "tickets", Statuses: retrytable.Statuses{Waiting: "ready"}, Instants: retrytable.UnixMillis,
	}
	tests := map[string]func() *retrytable.Table[int64]{
		"zero": func() *retrytable.Table[int64] { return &retrytable.Table[int64]{Name: zero.Name} },
		"same": func() *retrytable.Table[int64] {
			return &retrytable.Table[int64]{Name: same.Name, Statuses: same.Statuses, Instants: same.Instants}
		},
		"full":  full,
		"merge": merge,
	}
	for name, table := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			for _, dialect := range slices.Sorted(maps.Keys(dialects)) {
				if name == "merge" && dialect == retrytable.MySQL {
					continue
				}
				table := table()
				if table.Dialect = dialect; name == "merge" && dialect == retrytable.SQLite {
					table.Instants = retrytable.RFC3339
				}
				require.NoError(t, table.Validate())
				got.WriteString("-- " + dialects[dialect] + "\n" + table.Schema())
				for _, method := range methods {
					var db recorder
					args := map[string][]any{}
					if name == "full" {
						args = map[string][]any{
							"claim": {"a", "vm-7", 4}, "sweep": {"a"}, "promote": {"a"}, "retry": {"boom"}, "end": {"boom"},
						}
					}
					require.ErrorIs(t, method.call(table, &db, args[method.name]...), errDB)
					got.WriteString("\n-- " + dialects[dialect] + ": " + method.name + "\n" + db.sql + ";\n")
				}
			}
			file := filepath.Join("testdata", name+".sql")
			if os.Getenv("UPDATE") != "" {
				require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o600))
			}
			want := testkit.Must(os.ReadFile(file))(t)
			assert.Equal(t, string(want), got.String())
		})
	}
}

// Values are arguments, the user's first.
func TestArguments(t *testing.T) {
	t.Parallel()
	table := full()
	tests := map[string]struct{ users, want []any }{
		"claim":   {[]any{"a", "vm-7", 4}, []any{"a", "vm-7", 4, int64(10)}},
		"sweep":   {[]any{"a"}, []any{"a", int64(10)}},
		"promote": {[]any{"a"}, []any{"a", int64(10)}},
		"succeed": {nil, []any{"passed $1", int64(7), int64(3)}},
		"retry": {[]any{"boom"}, []any{
			"boom", int64(2), int64(1), int64(4), sql.NullInt64{Int64: 5, Valid: true}, int64(1_500_001), "http_503", nil, int64(7), int64(3),
		}},
		"end": {[]any{"boom"}, []any{
			"boom", int64(3), int64(0), int64(0), sql.NullInt64{Int64: time.Time{}.UnixMicro()}, nil, "no database", int64(7), int64(3),
		}},
		"extend":  {nil, []any{int64(90_000_000), int64(7), int64(3)}},
		"release": {nil, []any{int64(7), int64(3)}},

		"succeed as": {nil, []any{"failed", int64(7), int64(3)}},
	}
	for _, method := range methods {
		t.Run(method.name, func(t *testing.T) {
			t.Parallel()
			var db recorder
			test := tests[method.name]
			users := append(make([]any, 0, 9), test.users...) // with room to write into
			require.ErrorIs(t, method.call(table, &db, users...), errDB)
			assert.Equal(t, test.want, db.args)
			assert.Equal(t, make([]any, 9-len(users)), users[len(users):9], "the caller's slice")
			if method.name == "extend" {
				return
			}
			db.calls = 0
			assert.ErrorContains(t, method.call(table, &db, append(users, "one too many")...), "args: ")
			assert.Zero(t, db.calls)
		})
	}
	var db recorder
	assert.EqualError(t, methods[0].call(table, &db), "retrytable: claim: args: 0 given, 3 wanted by the SQL of the Table")
}

// A claim in an order of one's own promotes first, with the args that are for both.
func TestClaimPromotes(t *testing.T) {
	t.Parallel()
	table := full()
	table.NoPromote = false
	for n, promoted := range map[int]int64{1: 100, 1000: 1000} {
		var db recorder
		_, err := table.Claim(t.Context(), &db, n, "a", "vm-7", 4)
		assert.ErrorContains(t, err, "retrytable: promote: ")
		assert.Equal(t, []any{"a", promoted}, db.args)
	}
	var db recorder
	testkit.Must(table.Claim(t.Context(), &db, 0, "a", "vm-7", 4))(t)
	_, err := table.Claim(t.Context(), &db, 1)
	assert.ErrorContains(t, err, "retrytable: claim: args: 0 given, 3 wanted")
	assert.Zero(t, db.calls)
}

// What is in a string, a name or a comment is no parameter.
func TestNoParameters(t *testing.T) {
	t.Parallel()
	table := &retrytable.Table[int64]{
		Name: "jobs", Dialect: retrytable.SQLite,
		Where: "kind = $1 AND price <> '$2' AND it <> 'it''s $3' AND \"$4\" > 0 /* $5\n$5 */ -- $6\nAND 1 = 1",
	}
	require.NoError(t, table.Validate())
	var db recorder
	_, err := table.Claim(t.Context(), &db, 1, "a")
	require.ErrorIs(t, err, errDB)
	assert.Contains(t, db.sql, "kind = ?1 AND price <> '$2' AND it <> 'it''s $3' AND \"$4\" > 0 /* $5\n$5 */ -- $6\nAND 1 = 1")
}

// PostgreSQL cuts names off after 63 bytes. The indexes of a table with a long one
// have names of their own all the same.
func TestLongNames(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, name := range []string{strings.Repeat("x", 62), strings.Repeat("x", 61) + "y", strings.Repeat("é", 31), "app." + strings.Repeat("x", 63)} {
		table := &retrytable.Table[int64]{Name: name, OrderBy: "id"}
		for line := range strings.Lines(table.Schema()) {
			if rest, ok := strings.CutPrefix(line, "CREATE INDEX IF NOT EXISTS \""); ok {
				index, _, _ := strings.Cut(rest, "\"")
				assert.LessOrEqual(t, len(index), 63)
				assert.True(t, utf8.ValidString(index), index)
				names[index] = true
			}
		}
	}
	assert.Len(t, names, 16)
}

func TestFaultyTable(t *testing.T) {
	t.Parallel()
	for _, method := range methods {
		var db recorder
		table := &retrytable.Table[int64]{}
		assert.EqualError(t, method.call(table, &db), `retrytable: Name: "": must be the name of a table`, method.name)
		assert.Zero(t, db.calls)
	}
}

func TestNothingToClaim(t *testing.T) {
	t.Parallel()
	var db recorder
	table := &retrytable.Table[int64]{Name: "jobs"}
	for _, n := range []int{0, -1, math.MinInt} {
		rows := testkit.Must(table.Claim(t.Context(), &db, n))(t)
		assert.Empty(t, rows)
	}
	assert.Zero(t, db.calls)
}

// A job succeeds as the statuses say.
func TestSucceedAsRefuses(t *testing.T) {
	t.Parallel()
	table := full()
	for _, word := range []string{"", "done", "error", "Failed"} {
		var db recorder
		assert.EqualError(t, table.SucceedAs(t.Context(), &db, lease, word),
			`retrytable: succeed: status: "`+word+`": must be one of Statuses.Done: ["passed $1" "failed"]`)
		assert.Zero(t, db.calls)
	}
}

// A decision that does not say that the job ends does not end it.
func TestFailRefuses(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{}
	now := time.Now()
	table := &retrytable.Table[int64]{Name: "jobs"}
	for reason, d := range map[string]retry.Decision{
		"none":     p.Next(retry.State{}, nil, now),
		"canceled": {Stop: retry.StopCanceled},
		"deadline": {Stop: retry.StopDeadline},
		"budget":   {Stop: retry.StopBudget},
	} {
		var db recorder
		assert.EqualError(t, table.Fail(t.Context(), &db, lease, d), "retrytable: fail: Stop: "+reason+": does not end a job")
		assert.Zero(t, db.calls)
	}
	for _, d := range []retry.Decision{
		p.Next(retry.State{}, retry.MarkFinal(errDB), now),
		p.Next(retry.State{Failures: 2}, errDB, now),
		p.Next(retry.State{}, retry.MarkRateLimited(errDB, 25*time.Hour), now),
		(&retry.Policy{MaxElapsed: 1}).Next(retry.State{First: now.Add(-time.Hour)}, errDB, now),
		(&retry.Policy{NonIdempotent: true}).Next(retry.State{}, errDB, now),
	} {
		var db recorder
		assert.ErrorIs(t, table.Fail(t.Context(), &db, lease, d), errDB, d.Stop)
		assert.Contains(t, db.sql, "'dead'")
	}
}

// An attempt that found nothing yet is counted, or refused where it cannot be.
func TestPendingRefused(t *testing.T) {
	t.Parallel()
	d := (&retry.Policy{}).Next(retry.State{}, retry.MarkPending(errDB), time.Now())
	require.True(t, d.Retry)
	var db recorder
	table := &retrytable.Table[int64]{Name: "jobs"}
	err := table.Fail(t.Context(), &db, lease, d)
	assert.EqualError(t, err, "retrytable: fail: State.Pending: 1: the table has no column for it: name one in Columns.Pending")
	assert.Equal(t, retry.Final, retry.Classify(err).Class, "another attempt is no better")
	assert.Zero(t, db.calls)
	ends := &retry.Policy{Overrides: map[string]retry.Override{"pending": {MaxAttempts: 1}}}
	assert.ErrorIs(t, table.Fail(t.Context(), &db, lease, ends.Next(retry.State{}, retry.MarkPending(errDB), time.Now())), errDB)
	table = &retrytable.Table[int64]{Name: "jobs", Columns: retrytable.Columns{Pending: "polls"}}
	assert.ErrorIs(t, table.Fail(t.Context(), &db, lease, d), errDB)
	assert.Equal(t, []any{int64(0), int64(1)}, db.args[:2], "no attempt, one poll")
}

// Delays are rounded up to what the databases know, and never negative.
func TestDelays(t *testing.T) {
	t.Parallel()
	table := &retrytable.Table[int64]{Name: "jobs", Lease: time.Nanosecond}
	for delay, want := range map[time.Duration]int64{
		0: 0, 1: 1, 999: 1, 1000: 1, 1001: 2, -time.Hour: 0, math.MaxInt64: math.MaxInt64 / 1000,
	} {
		var db recorder
		d := retry.Decision{Retry: true, Delay: delay}
		require.ErrorIs(t, table.Fail(t.Context(), &db, lease, d), errDB)
		assert.Equal(t, want, db.args[1], delay)
	}
	for d, want := range map[time.Duration]int64{0: 1, -1: 1, 1500: 2} {
		var db recorder
		require.ErrorIs(t, table.Extend(t.Context(), &db, lease, d), errDB)
		assert.Equal(t, want, db.args[0], d)
	}
}

// A row that was made up, or stored, has the time of its claim.
func TestRowNow(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	row := retrytable.Row[string]{Claimed: at}
	assert.Equal(t, at, row.Now())
}
