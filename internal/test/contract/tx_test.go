package contract_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// attentive makes a script for drivers that have opinions about errors of their own, and in which
// nothing succeeds after its context has ended: every failure has a mark, or the policy's
// Classifier has an opinion.
func (s *script) attentive() *script {
	for i := range s.attempts {
		a := &s.attempts[i]
		f := &a.failure
		switch explicit := s.policy.Classifier != nil && s.policy.Classifier(f.err) != (retry.Verdict{}); {
		case f.err == nil:
			a.obeys = true
		case f.mark == nil && !explicit:
			f.marked(retry.Mark(f.err, f.base), f.base)
		}
	}
	return s
}

// testInTx makes the attempts in transactions. No failure before the commit has had an effect.
func testInTx(t *testing.T, d *decoder) {
	t.Helper()
	s := newStage(t, d.script().attentive())
	s.state = retry.State{}
	for i := range s.attempts {
		s.attempts[i].failure.unsent = true
	}
	server := &database{}
	db := sql.OpenDB(server)
	err := retrysql.InTx(s.ctx, db, &s.policy, nil, func(ctx context.Context, _ *sql.Tx) error { return s.operation(ctx) })
	require.NoError(t, db.Close())
	require.Equal(t, s.calls, server.begun)
	require.Equal(t, err == nil, server.committed == 1)
	require.Equal(t, server.begun, server.committed+server.rolledBack)
	s.returned(err)
	s.compare(t, (*run).live)
}

// database has transactions and nothing else. It is used by one transaction at a time.
type database struct{ begun, committed, rolledBack int }

// Connect implements [sqldriver.Connector].
func (d *database) Connect(context.Context) (sqldriver.Conn, error) { return d, nil }

// Driver implements [sqldriver.Connector].
func (*database) Driver() sqldriver.Driver { return nil }

// Prepare implements [sqldriver.Conn].
func (*database) Prepare(string) (sqldriver.Stmt, error) { panic("not used") }

// Close implements [sqldriver.Conn].
func (*database) Close() error { return nil }

// Begin implements [sqldriver.Conn].
func (d *database) Begin() (sqldriver.Tx, error) {
	d.begun++
	return d, nil
}

// Commit implements [sqldriver.Tx].
func (d *database) Commit() error {
	d.committed++
	return nil
}

// Rollback implements [sqldriver.Tx].
func (d *database) Rollback() error {
	d.rolledBack++
	return nil
}
