package retrytable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	type table = retrytable.Table[int64]
	type columns = retrytable.Columns
	type statuses = retrytable.Statuses
	tests := []struct {
		name  string
		table *table
		want  string // "" if there is no fault
	}{
		{"defaults", &table{Name: "jobs"}, ""},
		{"defaults of SQLite", &table{Name: "jobs", Dialect: retrytable.SQLite}, ""},
		{"defaults of MySQL", &table{Name: "jobs", Dialect: retrytable.MySQL}, ""},
		{"schema", &table{Name: "app.jobs"}, ""},
		{"integers in PostgreSQL", &table{Name: "jobs", Instants: retrytable.UnixSeconds}, ""},
		{"words of runs", &table{Name: "runs", Statuses: statuses{Ready: "discovered", Waiting: "error", Dead: "error"}}, ""},
		{"words of tickets", &table{Name: "tickets", Statuses: statuses{Waiting: "ready"}}, ""},
		{"quotes", &table{Name: `a"b`, Columns: columns{ID: "i`d"}, Statuses: statuses{Ready: "it's"}}, ""},
		{
			"parameters",
			&table{Name: "jobs", Where: "a = $1 OR b = $2 OR c = $1", ClaimWhere: "e = $4", Set: retrytable.Set{Claim: "d = $3"}}, "",
		},
		{
			"parameters of failures",
			&table{Name: "jobs", Set: retrytable.Set{Fail: "a = $1, b = $2", Retry: "c = $2", End: "d = 1"}}, "",
		},
		{"ways to be done", &table{Name: "runs", Statuses: statuses{Done: []string{"passed", "failed"}, Dead: "failed"}}, ""},

		{"no name", &table{}, `Name: "": must be the name of a table`},
		{"no name in a schema", &table{Name: "app."}, `Name: "app.": must be the name of a table`},
		{"zero byte", &table{Name: "a\x00"}, `Name: "a\x00": must not contain a zero byte`},
		{"dialect", &table{Name: "jobs", Dialect: 3}, "Dialect: 3: unknown"},
		{"instants", &table{Name: "jobs", Instants: 7}, "Instants: 7: unknown"},
		{
			"timestamptz in SQLite",
			&table{Name: "jobs", Dialect: retrytable.SQLite, Instants: retrytable.Timestamptz},
			`Instants: "Timestamptz": SQLite has no such type`,
		},
		{
			"timestamptz in MySQL",
			&table{Name: "jobs", Dialect: retrytable.MySQL, Instants: retrytable.Timestamptz},
			`Instants: "Timestamptz": MySQL has no such type`,
		},
		{
			"datetime in PostgreSQL",
			&table{Name: "jobs", Instants: retrytable.Datetime}, `Instants: "Datetime": PostgreSQL has no such type`,
		},
		{"lease", &table{Name: "jobs", Lease: -time.Second}, "Lease: -1s: must not be negative"},
		{
			"column twice", &table{Name: "jobs", Columns: columns{Lease: "DUE_AT"}},
			`Columns.Lease: "DUE_AT": is Columns.Due already`,
		},
		{
			"optional column twice", &table{Name: "jobs", Columns: columns{RateLimited: "x", First: "x"}},
			`Columns.First: "x": is Columns.RateLimited already`,
		},
		{"column", &table{Name: "jobs", Columns: columns{Fence: "\x00"}}, `Columns.Fence: "\x00": must not contain a zero byte`},
		{
			"word", &table{Name: "jobs", Statuses: statuses{Ready: `a\b`}},
			`Statuses.Ready: "a\\b": must not contain a backslash or a zero byte`,
		},
		{
			"no word", &table{Name: "jobs", Statuses: statuses{Running: []string{"claimed", ""}}},
			`Statuses.Running[1]: "": must not be empty`,
		},
		{
			"running is ready", &table{Name: "jobs", Statuses: statuses{Running: []string{"ready"}}},
			`Statuses.Running[0]: "ready": must not mean two states`,
		},
		{
			"running is dead", &table{Name: "jobs", Statuses: statuses{Running: []string{"running", "dead"}}},
			`Statuses.Running[1]: "dead": must not mean two states`,
		},
		{
			"done is waiting", &table{Name: "jobs", Statuses: statuses{Done: []string{"done", "waiting"}}},
			`Statuses.Done[1]: "waiting": must not mean two states`,
		},
		{
			"running is done", &table{Name: "jobs", Statuses: statuses{Running: []string{"passed"}, Done: []string{"done", "passed"}}},
			`Statuses.Running[0]: "passed": must not mean two states`,
		},
		{"no word for done", &table{Name: "jobs", Statuses: statuses{Done: []string{""}}}, `Statuses.Done[0]: "": must not be empty`},
		{
			"done twice", &table{Name: "jobs", Statuses: statuses{Done: []string{"done", "passed", "done"}}},
			`Statuses.Done[2]: "done": must not be there twice`,
		},
		{
			"running twice", &table{Name: "jobs", Statuses: statuses{Running: []string{"running", "running"}}},
			`Statuses.Running[1]: "running": must not be there twice`,
		},
		{"dead is ready", &table{Name: "jobs", Statuses: statuses{Dead: "ready"}}, `Statuses.Dead: "ready": must not mean two states`},
		{"parameter 2 only", &table{Name: "jobs", Set: retrytable.Set{Fail: "a = $2"}}, `Set.Fail: "a = $2": has no $1`},
		{"parameter 0", &table{Name: "jobs", Set: retrytable.Set{Succeed: "a = $0"}}, `Set.Succeed: "a = $0": has no $1`},
		{
			"parameter 3 of a claim", &table{Name: "jobs", Where: "a = $1", Set: retrytable.Set{Claim: "b = $3"}},
			`Where, ClaimWhere, Set.Claim: "a = $1, b = $3": has no $2`,
		},
		{
			"parameter 4 of a claim", &table{Name: "jobs", Where: "a = $1", ClaimWhere: "b = $4", Set: retrytable.Set{Claim: "c = $2"}},
			`Where, ClaimWhere, Set.Claim: "a = $1, b = $4, c = $2": has no $3`,
		},
		{
			"parameter of a retry only", &table{Name: "jobs", Set: retrytable.Set{Fail: "a = $1", Retry: "b = $2"}},
			`Set.Retry: "b = $2": must have no parameters but those of Set.Fail`,
		},
		{
			"parameter of an end only", &table{Name: "jobs", Set: retrytable.Set{End: "b = $1"}},
			`Set.End: "b = $1": must have no parameters but those of Set.Fail`,
		},
		{
			"parameter 0 of an end", &table{Name: "jobs", Set: retrytable.Set{End: "b = $0"}},
			`Set.End: "b = $0": must have no parameters but those of Set.Fail`,
		},
		{
			"parameter 3 of a promotion", &table{Name: "jobs", Where: "a = $1", Set: retrytable.Set{Promote: "b = $3"}},
			`Where, Set.Promote: "a = $1, b = $3": has no $2`,
		},
		{
			"parameter of a promotion by a claim",
			&table{Name: "jobs", Where: "a = $1", OrderBy: "id", Set: retrytable.Set{Promote: "b = $2"}},
			`Set.Promote: "b = $2": must have no parameters but those of Where, or there must be NoPromote`,
		},
		{
			"parameter of a promotion by hand",
			&table{Name: "jobs", Where: "a = $1", OrderBy: "id", NoPromote: true, Set: retrytable.Set{Promote: "b = $2"}}, "",
		},
		{
			"parameters of where, which Sweep has alone",
			&table{Name: "jobs", Where: "a = $2", Set: retrytable.Set{Claim: "b = $1", Promote: "b = $1"}},
			`Where: "a = $2": has no $1`,
		},
		{
			"parameter too many", &table{Name: "jobs", Set: retrytable.Set{Release: "a = $65536"}},
			`Set.Release: "a = $65536": has no $1`,
		},
		{
			"no number", &table{Name: "jobs", Set: retrytable.Set{Release: "a = $99999999999999999999"}},
			`Set.Release: "a = $99999999999999999999": has no $1`,
		},
		{"two counts", &table{Name: "jobs", Columns: retrytable.Columns{Attempts: "a", Retries: "b"}}, `Columns.Retries: "b": must not be there with Attempts`},
		{"merge", &table{Name: "jobs", OrderBy: "id", Merge: true}, ""},
		{"merge in MySQL", &table{Name: "jobs", OrderBy: "id", Merge: true, Dialect: retrytable.MySQL}, "Merge: true: MySQL has no such claim"},
		{"merge without an order", &table{Name: "jobs", Merge: true}, "Merge: true: needs an OrderBy"},
		{"merge without promotion", &table{Name: "jobs", OrderBy: "id", Merge: true, NoPromote: true}, "Merge: true: must not be there with NoPromote"},
		{
			"merge of one word", &table{Name: "jobs", OrderBy: "id", Merge: true, Statuses: retrytable.Statuses{Waiting: "ready"}},
			"Merge: true: needs a word for Waiting that is not the one for Ready",
		},
		{"text in PostgreSQL", &table{Name: "jobs", Instants: retrytable.RFC3339}, `Instants: "RFC3339": PostgreSQL has no such type`},
		{"parameter in the order", &table{Name: "jobs", OrderBy: "a = $1"}, `OrderBy: "a = $1": must not have parameters`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.table.Validate()
			if test.want == "" {
				assert.NoError(t, err)
				assert.NotEmpty(t, test.table.Schema())
				return
			}
			assert.ErrorContains(t, err, "retrytable: "+test.want)
			assert.Empty(t, test.table.Schema())
		})
	}
}

func TestValidateReportsAll(t *testing.T) {
	t.Parallel()
	table := &retrytable.Table[string]{Dialect: 9, Lease: -1}
	assert.EqualError(t, table.Validate(), "retrytable: Dialect: 9: unknown\n"+
		"retrytable: Name: \"\": must be the name of a table\n"+
		"retrytable: Lease: -1ns: must not be negative")
}
