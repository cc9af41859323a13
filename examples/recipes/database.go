package recipes

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// Name reads one value. If the server has restarted, InTx closes the idle connections, which are dead too.
func Name(ctx context.Context, db *sql.DB, id int64) (name string, err error) {
	opts := &retrysql.TxOptions{ReadOnly: true}
	err = retrysql.InTx(ctx, db, nil, opts, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT name FROM users WHERE id = $1", id).Scan(&name)
	})
	return name, err
}

// Ready waits until a database answers. It ends at once if a password or a name is wrong.
func Ready(ctx context.Context, db *sql.DB) error {
	policy := &retry.Policy{
		MaxAttempts: retry.Unlimited, Timeout: 2 * time.Minute, Backoff: retry.Constant(time.Second),
		Classifier: retrysql.Classify,
	}
	return policy.Execute(ctx, db.PingContext)
}
