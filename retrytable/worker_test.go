package retrytable_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// A Worker that cannot work says everything that is wrong with it, and does nothing.
func TestWorkerValidate(t *testing.T) {
	t.Parallel()
	type worker = retrytable.Worker[int64]
	work := func(context.Context, *retrytable.Job[int64]) error { return nil }
	table := &retrytable.Table[int64]{Name: "jobs", Where: "kind = $1", Lease: time.Minute}
	tests := map[string]struct {
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
	}
	for name, test := range tests {
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
