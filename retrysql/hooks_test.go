package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

func TestAfterCommit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		op   string // that fails
		errs []error
		opts *retrysql.TxOptions
		want []string // what is called
		err  error
	}{
		{"committed", "", nil, nil, []string{"1a", "1b"}, nil},
		{"a rolled back attempt", "exec", []error{pg("40001")}, nil, []string{"2a", "2b"}, nil},
		{"a commit that is refused", "commit", []error{pg("40001"), pg("40001")}, nil, []string{"3a", "3b"}, nil},
		{"rolled back for good", "exec", []error{errBusiness}, nil, nil, errBusiness},
		{"out of attempts", "commit", []error{pg("40001"), pg("40001"), pg("40001")}, nil, nil, nil},
		{"a commit of unknown outcome", "commit", []error{driver.ErrBadConn}, nil, nil, retrysql.ErrCommitUnknown},
		{
			"one that is repeated", "commit",
			[]error{driver.ErrBadConn},
			&retrysql.TxOptions{Idempotent: true},
			[]string{"2a", "2b"},
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			s.on(tt.op, tt.errs...)
			var called []string
			attempt := 0
			err := retrysql.InTx(t.Context(), db, quick(), tt.opts, func(ctx context.Context, tx *sql.Tx) error {
				attempt++
				this := attempt
				for _, name := range []string{"a", "b"} {
					retrysql.AfterCommit(ctx, func(ctx context.Context) {
						called = append(called, fmt.Sprint(this, name))
						testkit.Idle(t, db)
						assert.Equal(t, t.Context(), ctx)
					})
				}
				assert.Empty(t, called, "not before the commit")
				return update(ctx, tx)
			})
			assert.Equal(t, tt.want, called)
			assert.Equal(t, tt.want != nil, err == nil)
			if tt.err != nil {
				assert.ErrorIs(t, err, tt.err)
			}
		})
	}
}

// A panic after the commit undoes nothing, and passes through.
func TestAfterCommitPanics(t *testing.T) {
	t.Parallel()
	s, db := newServer(t)
	assert.PanicsWithValue(t, "hook", func() {
		_ = retrysql.InTx(t.Context(), db, quick(), nil, func(ctx context.Context, _ *sql.Tx) error {
			retrysql.AfterCommit(ctx, func(context.Context) { panic("hook") })
			retrysql.AfterCommit(ctx, func(context.Context) { t.Error("called") })
			return nil
		})
	})
	assert.Equal(t, []string{"open 1", "begin 1", "commit 1"}, s.events())
}

// A transaction in a transaction has its own.
func TestAfterCommitNested(t *testing.T) {
	t.Parallel()
	_, db := newServer(t)
	var called []string
	require.NoError(t, retrysql.InTx(t.Context(), db, nil, nil, func(ctx context.Context, _ *sql.Tx) error {
		retrysql.AfterCommit(ctx, func(context.Context) { called = append(called, "outer") })
		return retrysql.InTx(ctx, db, nil, nil, func(ctx context.Context, _ *sql.Tx) error {
			retrysql.AfterCommit(ctx, func(context.Context) { called = append(called, "inner") })
			return nil
		})
	}))
	assert.Equal(t, []string{"inner", "outer"}, called)
}

// Whoever hands it to no transaction would never see it called.
func TestAfterCommitOutside(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, "retrysql: AfterCommit: the context is not that of a function of InTx", func() {
		retrysql.AfterCommit(t.Context(), func(context.Context) {})
	})
}

func ExampleAfterCommit() {
	db := openDB()
	defer func() { _ = db.Close() }()
	err := retrysql.InTx(context.Background(), db, quick(), nil, func(ctx context.Context, tx *sql.Tx) error {
		retrysql.AfterCommit(ctx, func(context.Context) { fmt.Println("tell the customer") })
		for range 2 { // the second one conflicts with another transaction, once
			if _, err := tx.ExecContext(ctx, "UPDATE"); err != nil {
				fmt.Println("rolled back")
				return err
			}
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// rolled back
	// tell the customer
	// <nil>
}
