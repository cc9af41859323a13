package main

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func Example() {
	main()
	// Output:
	// works on daily
	// works on monthly
	// works on yearly
	// works on monthly
	// works on monthly
	// daily: 1
	// monthly: 3: report failed after 3 attempts: database is busy
	// weekly: 4: report failed after 3 attempts
	// yearly: 1: no such year
}

// A worker that was so slow that another has taken its row over changes nothing any more.
func TestSlow(t *testing.T) {
	t.Parallel()
	db, err := open(t.Context(), filepath.Join(t.TempDir(), "reports.db"))
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	exec := func(ctx context.Context, statement string) {
		_, err := db.ExecContext(ctx, statement)
		require.NoError(t, err)
	}
	exec(t.Context(), "INSERT INTO reports (name) VALUES ('daily')")
	worked, err := step(t.Context(), db, func(ctx context.Context, _ string) error {
		worked, err := step(ctx, db, nil) // while its minute is not over, nobody else takes it
		assert.NoError(t, err)
		assert.False(t, worked)
		exec(ctx, "UPDATE reports SET retry_count = 2, next_retry_at = 4102444800000") // somebody else has claimed it
		return nil
	})
	require.NoError(t, err)
	assert.True(t, worked)
	var due int64
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT next_retry_at FROM reports").Scan(&due))
	assert.Equal(t, int64(4102444800000), due)
}
