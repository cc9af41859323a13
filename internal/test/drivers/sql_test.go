package drivers_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrysql"
)

// inTx makes the attempts in transactions. A failure before the commit had no effect,
// so every second policy is NonIdempotent without a difference.
func inTx(s *stage) error {
	s.policy.NonIdempotent = s.seed%2 == 1
	server := &server{}
	db := sql.OpenDB(server)
	err := retrysql.InTx(s.ctx, db, &s.policy, nil, func(ctx context.Context, _ *sql.Tx) error { return s.op(ctx) })
	require.NoError(s, db.Close())
	require.Equal(s, len(s.course.attempts), server.begun, "seed %d", s.seed)
	require.Equal(s, err == nil, server.committed == 1, "seed %d", s.seed)
	require.Equal(s, server.begun, server.committed+server.rolledBack, "seed %d", s.seed)
	return err
}

// server is a database with transactions and nothing else. It is used by one
// transaction at a time.
type server struct{ begun, committed, rolledBack int }

// Connect implements [sqldriver.Connector].
func (s *server) Connect(context.Context) (sqldriver.Conn, error) { return s, nil }

// Driver implements [sqldriver.Connector].
func (*server) Driver() sqldriver.Driver { return nil }

// Prepare implements [sqldriver.Conn].
func (*server) Prepare(string) (sqldriver.Stmt, error) { panic("not used") }

// Close implements [sqldriver.Conn].
func (*server) Close() error { return nil }

// Begin implements [sqldriver.Conn].
func (s *server) Begin() (sqldriver.Tx, error) {
	s.begun++
	return s, nil
}

// Commit implements [sqldriver.Tx].
func (s *server) Commit() error {
	s.committed++
	return nil
}

// Rollback implements [sqldriver.Tx].
func (s *server) Rollback() error {
	s.rolledBack++
	return nil
}
