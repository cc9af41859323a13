package retrytable_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	type table = retrytable.Table[int64]
	type columns = retrytable.Columns
	type statuses = retrytable.Statuses
	type set = retrytable.Set
	for _, sound := range []*table{
		{Name: "jobs"},
		{Name: "jobs", Dialect: retrytable.SQLite},
		{Name: "jobs", Dialect: retrytable.MySQL},
		{Name: "app.jobs"},
		{Name: "jobs", Instants: retrytable.UnixSeconds},
		{Name: "runs", Statuses: statuses{Ready: "discovered", Waiting: "error", Dead: "error"}},
		{Name: "tickets", Statuses: statuses{Waiting: "ready"}},
		{Name: `a"b`, Columns: columns{ID: "i`d"}, Statuses: statuses{Ready: "it's"}},
		{Name: "jobs", Where: "a = $1 OR b = $2 OR c = $1", ClaimWhere: "e = $4", Set: set{Claim: "d = $3"}},
		{Name: "jobs", Set: set{Fail: "a = $1, b = $2", Retry: "c = $2", End: "d = 1"}},
		{Name: "runs", Statuses: statuses{Done: []string{"passed", "failed"}, Dead: "failed"}},
		{Name: "jobs", Where: "a = $1", OrderBy: "id", NoPromote: true, Set: set{Promote: "b = $2"}},
		{Name: "jobs", OrderBy: "id", Merge: true},
	} {
		assert.NoError(t, sound.Validate())
		assert.NotEmpty(t, sound.Schema())
	}
	for _, test := range []struct {
		want  string
		table *table
	}{
		{`Name: "": must be the name of a table`, &table{}},
		{`Name: "app.": must be the name of a table`, &table{Name: "app."}},
		{`Name: "a\x00": must not contain a zero byte`, &table{Name: "a\x00"}},
		{"Dialect: 3: unknown", &table{Name: "jobs", Dialect: 3}},
		{"Instants: 7: unknown", &table{Name: "jobs", Instants: 7}},
		{
			`Instants: "Timestamptz": SQLite has no such type`,
			&table{Name: "jobs", Dialect: retrytable.SQLite, Instants: retrytable.Timestamptz},
		},
		{
			`Instants: "Timestamptz": MySQL has no such type`,
			&table{Name: "jobs", Dialect: retrytable.MySQL, Instants: retrytable.Timestamptz},
		},
		{`Instants: "Datetime": PostgreSQL has no such type`, &table{Name: "jobs", Instants: retrytable.Datetime}},
		{"Lease: -1s: must not be negative", &table{Name: "jobs", Lease: -time.Second}},
		{`Columns.Lease: "DUE_AT": is Columns.Due already`, &table{Name: "jobs", Columns: columns{Lease: "DUE_AT"}}},
		{
			`Columns.First: "x": is Columns.RateLimited already`,
			&table{Name: "jobs", Columns: columns{RateLimited: "x", First: "x"}},
		},
		{`Columns.Fence: "\x00": must not contain a zero byte`, &table{Name: "jobs", Columns: columns{Fence: "\x00"}}},
		{
			`Statuses.Ready: "a\\b": must not contain a backslash or a zero byte`,
			&table{Name: "jobs", Statuses: statuses{Ready: `a\b`}},
		},
		{
			`Statuses.Running[1]: "": must not be empty`,
			&table{Name: "jobs", Statuses: statuses{Running: []string{"claimed", ""}}},
		},
		{
			`Statuses.Running[0]: "ready": must not mean two states`,
			&table{Name: "jobs", Statuses: statuses{Running: []string{"ready"}}},
		},
		{
			`Statuses.Running[1]: "dead": must not mean two states`,
			&table{Name: "jobs", Statuses: statuses{Running: []string{"running", "dead"}}},
		},
		{
			`Statuses.Done[1]: "waiting": must not mean two states`,
			&table{Name: "jobs", Statuses: statuses{Done: []string{"done", "waiting"}}},
		},
		{
			`Statuses.Running[0]: "passed": must not mean two states`,
			&table{Name: "jobs", Statuses: statuses{Running: []string{"passed"}, Done: []string{"done", "passed"}}},
		},
		{`Statuses.Done[0]: "": must not be empty`, &table{Name: "jobs", Statuses: statuses{Done: []string{""}}}},
		{
			`Statuses.Done[2]: "done": must not be there twice`,
			&table{Name: "jobs", Statuses: statuses{Done: []string{"done", "passed", "done"}}},
		},
		{
			`Statuses.Running[1]: "running": must not be there twice`,
			&table{Name: "jobs", Statuses: statuses{Running: []string{"running", "running"}}},
		},
		{`Statuses.Dead: "ready": must not mean two states`, &table{Name: "jobs", Statuses: statuses{Dead: "ready"}}},
		{`Set.Fail: "a = $2": has no $1`, &table{Name: "jobs", Set: set{Fail: "a = $2"}}},
		{`Set.Succeed: "a = $0": has no $1`, &table{Name: "jobs", Set: set{Succeed: "a = $0"}}},
		{
			`Where, ClaimWhere, Set.Claim: "a = $1, b = $3": has no $2`,
			&table{Name: "jobs", Where: "a = $1", Set: set{Claim: "b = $3"}},
		},
		{
			`Where, ClaimWhere, Set.Claim: "a = $1, b = $4, c = $2": has no $3`,
			&table{Name: "jobs", Where: "a = $1", ClaimWhere: "b = $4", Set: set{Claim: "c = $2"}},
		},
		{
			`Set.Retry: "b = $2": must have no parameters but those of Set.Fail`,
			&table{Name: "jobs", Set: set{Fail: "a = $1", Retry: "b = $2"}},
		},
		{`Set.End: "b = $1": must have no parameters but those of Set.Fail`, &table{Name: "jobs", Set: set{End: "b = $1"}}},
		{`Set.End: "b = $0": must have no parameters but those of Set.Fail`, &table{Name: "jobs", Set: set{End: "b = $0"}}},
		{`Where, Set.Promote: "a = $1, b = $3": has no $2`, &table{Name: "jobs", Where: "a = $1", Set: set{Promote: "b = $3"}}},
		{
			`Set.Promote: "b = $2": must have no parameters but those of Where, or there must be NoPromote`,
			&table{Name: "jobs", Where: "a = $1", OrderBy: "id", Set: set{Promote: "b = $2"}},
		},
		{`Where: "a = $2": has no $1`, &table{Name: "jobs", Where: "a = $2", Set: set{Claim: "b = $1", Promote: "b = $1"}}},
		{`Set.Release: "a = $65536": has no $1`, &table{Name: "jobs", Set: set{Release: "a = $65536"}}},
		{
			`Set.Release: "a = $99999999999999999999": has no $1`,
			&table{Name: "jobs", Set: set{Release: "a = $99999999999999999999"}},
		},
		{
			`Columns.Retries: "b": must not be there with Attempts`,
			&table{Name: "jobs", Columns: columns{Attempts: "a", Retries: "b"}},
		},
		{"Merge: true: MySQL has no such claim", &table{Name: "jobs", OrderBy: "id", Merge: true, Dialect: retrytable.MySQL}},
		{"Merge: true: needs an OrderBy", &table{Name: "jobs", Merge: true}},
		{"Merge: true: must not be there with NoPromote", &table{Name: "jobs", OrderBy: "id", Merge: true, NoPromote: true}},
		{
			"Merge: true: needs a word for Waiting that is not the one for Ready",
			&table{Name: "jobs", OrderBy: "id", Merge: true, Statuses: statuses{Waiting: "ready"}},
		},
		{`Instants: "RFC3339": PostgreSQL has no such type`, &table{Name: "jobs", Instants: retrytable.RFC3339}},
		{`OrderBy: "a = $1": must not have parameters`, &table{Name: "jobs", OrderBy: "a = $1"}},
	} {
		assert.ErrorContains(t, test.table.Validate(), "retrytable: "+test.want)
		assert.Empty(t, test.table.Schema(), test.want)
	}
}

func TestValidateReportsAll(t *testing.T) {
	t.Parallel()
	table := &retrytable.Table[string]{Dialect: 9, Lease: -1}
	assert.EqualError(t, table.Validate(), "retrytable: Dialect: 9: unknown\n"+
		"retrytable: Name: \"\": must be the name of a table\n"+
		"retrytable: Lease: -1ns: must not be negative")
}

// A Worker that cannot work says everything that is wrong with it, and does nothing.
func TestWorkerValidate(t *testing.T) {
	t.Parallel()
	type worker = retrytable.Worker[int64]
	work := func(context.Context, *retrytable.Job[int64]) error { return nil }
	table := &retrytable.Table[int64]{Name: "jobs", Where: "kind = $1", Lease: time.Minute}
	for name, test := range map[string]struct {
		worker *worker
		want   string
	}{
		"nothing": {
			&worker{}, "retrytable: Worker.Table: <nil>: must be there\n" +
				"retrytable: Worker.DB: <nil>: must be there\n" +
				"retrytable: Worker.Work: <nil>: must be there",
		},
		"faults of others": {
			&worker{
				Table: &retrytable.Table[int64]{Lease: -1}, DB: new(sql.DB), Work: work,
				Policy: &retry.Policy{MaxElapsed: -1},
			},
			"retrytable: Name: \"\": must be the name of a table\n" +
				"retrytable: Lease: -1ns: must not be negative\n" +
				"retrytable: Worker.Policy: retry: invalid policy: max_elapsed: -1ns: must not be negative",
		},
		"negative": {
			&worker{Table: table, DB: new(sql.DB), Work: work, Concurrency: -1, Heartbeat: -1, Poll: -2, Grace: -3},
			"retrytable: Worker.Concurrency: -1: must not be negative\n" +
				"retrytable: Worker.Heartbeat: -1ns: must not be negative\n" +
				"retrytable: Worker.Poll: -2ns: must not be negative\n" +
				"retrytable: Worker.Grace: -3ns: must not be negative",
		},
		"kinds": {
			&worker{Table: table, DB: new(sql.DB), Work: work, PolicyFor: new(retrypolicies.Policies).Get},
			"retrytable: Worker.PolicyFor: the table has no column for kinds: name one in Table.Columns.Kind",
		},
		"keys": {
			&worker{Table: table, DB: new(sql.DB), Work: work, QuotaFor: new(retryquota.Keys[string]).Of},
			"retrytable: Worker.QuotaFor: the table has no column for keys: name one in Table.Columns.Key",
		},
		"a limit that nobody keeps": {
			&worker{Table: &retrytable.Table[int64]{Name: "jobs"}, DB: new(sql.DB), Work: work, Policy: &retry.Policy{MaxElapsed: time.Hour}},
			"retrytable: Worker.Policy.MaxElapsed: 1h0m0s: " +
				"needs a column that says when the first attempt was: name one in Table.Columns.First",
		},
		"heartbeat": {
			&worker{Table: table, DB: new(sql.DB), Work: work, Heartbeat: time.Minute},
			"retrytable: Worker.Heartbeat: 1m0s: must be less than Table.Lease, 1m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.EqualError(t, test.worker.Validate(), test.want)
			assert.EqualError(t, test.worker.Run(t.Context()), test.want)
			n, err := test.worker.Once(t.Context())
			assert.EqualError(t, err, test.want)
			assert.Zero(t, n)
		})
	}
	sound := &worker{Table: table, DB: new(sql.DB), Work: work}
	assert.NoError(t, sound.Validate())
	assert.EqualError(t, sound.Run(t.Context()), "retrytable: Worker.ClaimArgs: 0 given, 1 wanted by the SQL of the Table")
}

func TestMain(m *testing.M) { testkit.NoLeaks(m) }
